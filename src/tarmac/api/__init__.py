"""The operations of the API and the shapes of its answers, defined once, as docs/using/api.md has them.

The server encodes these records, OpenAPI describes them, and the client decodes answers into them. An answer
that equals a record of `model` has no class here. Each module is imported at the first use of one of its
names: a command needs few of them, and has to start at once. A test compares the names with the modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarmac.api.account_operations import *
    from tarmac.api.burst_operations import *
    from tarmac.api.cluster_operations import *
    from tarmac.api.clusters import *
    from tarmac.api.experiment_operations import *
    from tarmac.api.files import *
    from tarmac.api.history_operations import *
    from tarmac.api.page_operations import *
    from tarmac.api.placement import *
    from tarmac.api.run_operations import *
    from tarmac.api.server import *
    from tarmac.api.storage_operations import *
    from tarmac.api.submit_operations import *
else:
    _NAMES = {
        "account_operations": (
            "ADD_TOKEN AUDIT AuditQuery BEGIN_SESSION BEGIN_SIGN_ON BeginSignOnBody CREDITS "
            "CREDIT_ENTRIES END_SESSION FINISH_SIGN_ON GRANT_CREDITS GrantBody LIMITS LOGIN LOGOUT "
            "LedgerQuery LimitBody LoginBody MEMBERS MOST_ENTRIES MemberBody NewToken ORGANISATIONS "
            "OrganisationBody Password PasswordBody PersonalSubscription REMOVE_USER REVOKE_TOKEN "
            "SET_LIMITS SET_MEMBER SET_ORGANISATION SET_PASSWORD SET_USER SUBSCRIBE SUBSCRIPTIONS SignOn "
            "SignOnBody SignOnProgress SubscriptionBody SubscriptionsQuery TOKENS TokenBody TokensQuery "
            "USERS UserBody WHO_AM_I"
        ),
        "burst_operations": (
            "ADD_PROVIDER APPROVE CHECK_PROVIDER ListedShape OFFERS PROVIDERS ProviderBody REFRESH_SHAPES "
            "REMOVE_PROVIDER REMOVE_SHAPE RENTALS Rental RentalsQuery SET_SHAPES SHAPES STAGED_RUNS "
            "STRANGERS ShapeBody ShapesBody"
        ),
        "cluster_operations": (
            "ADD_CLUSTER CHANGE_QUEUE CHECK_CLUSTER CLUSTER CLUSTERS CLUSTER_CHANGE CLUSTER_MACHINES "
            "ChangeQuery ChangesBody ClusterBody DRAIN DownBody DrainBody END_CLUSTER IMAGES ImageQuery "
            "ImagesQuery MachinesBody NODES NodeChoice NodesQuery PoolBody QUEUE QueueChange "
            "QueueChangeQuery QueueQuery RELEASE REMOVE_CLUSTER REMOVE_IMAGE RESERVATIONS RESERVE "
            "ReserveBody SET_POOL START_CLUSTER Time UNDRAIN USAGE USAGE_HISTORY UTILIZATION "
            "UsageHistoryQuery UsageQuery"
        ),
        "clusters": (
            "Amounts ChangeKind ChangeLine ChangeState Cluster ClusterChange ClusterKind ClusterMachine "
            "ClusterStatus Estimate ImageList Node NodeKind NodeRun PoolRules QueueEntry QueuePool "
            "Reservation"
        ),
        "experiment_operations": (
            "ACTIVATE_EXPERIMENT ARCHIVE_EXPERIMENT ArchiveQuery BEST_TRIALS BestQuery "
            "CONTINUE_EXPERIMENT CREATE_EXPERIMENT EXPERIMENT EXPERIMENTS Experiment ExperimentBody "
            "ExperimentPage ExperimentsQuery METRICS MOST_POINTS MetricChoice MetricPoints MetricSeries "
            "MetricsQuery NUMBERED_EXPERIMENT NUMBERS Numbered Numbers NumbersQuery PAUSE_EXPERIMENT "
            "PREVIEW_SEARCH PreviewLine REMOVE_EXPERIMENT STOP_EXPERIMENT Search TRIALS Trial"
        ),
        "files": (
            "Artifact ArtifactContent ArtifactEntry CodeChange CodeDirectory CodeNeeded MissingContents "
            "Piece Rotation UploadedPack UploadedTree"
        ),
        "history_operations": (
            "ANNOTATIONS ATTEMPTS Attempt EVENTS EventsQuery FILE FILES FileQuery FilesQuery LOGS "
            "LOG_LINES LOG_TEXT LogChoice LogChunk LogLine LogLinesQuery LogSource LogWindow LogsQuery "
            "NOTE NOTIFICATIONS NoteBody Notification OPEN_SESSION REPORTS Report ReportsQuery SESSION "
            "SessionBody StreamNotice TerminalBody WRITE_SESSION WorkFile WorkFiles WorkerChoice "
            "WorkerPlacement"
        ),
        "page_operations": (
            "ChangesQuery DELETE_VIEW OPEN_PAGE PAGE PageAddress PageFacts RUN_CHANGES RUN_COUNTS RUN_TABLE "
            "RunChanges RunColumn RunCountsQuery RunTable RunWindowQuery SAVE_VIEW VIEWS ViewBody ViewQuery"
        ),
        "placement": (
            "DryRun NamedRun NodeLaunch Placement Prospects RunUtilization SlotHistory WHY Why "
            "WhyEstimate WorkerLaunch"
        ),
        "run_operations": (
            "ARRAY Array COMMAND_RUNS CommandBody CycleReport LABEL LABEL_RUNS LabelRunsBody LabelsBody "
            "MOST_COMMANDED PAUSE PROJECTS REMOVE_RUN RESUME RUN RUNS Run RunCommand RunPage RunResult "
            "RunStatus RunsQuery STOP StopQuery"
        ),
        "server": "CheckReport Error ErrorForm Health Version error_form",
        "storage_operations": (
            "ADD_DATASET ANNOUNCE ARTIFACT ARTIFACTS ARTIFACT_FILE ARTIFACT_PIECE AnnouncementBody "
            "ArtifactFileQuery ArtifactQuery ArtifactsQuery DATASETS DatasetBody HEALTH REMOVE_ARTIFACT "
            "REMOVE_DATASET REMOVE_SECRET ROTATE_SECRETS RemoveSecretQuery SECRETS SERVER_METRICS "
            "SET_SECRET STOP_SERVER SecretBody SecretQuery VERSION"
        ),
        "submit_operations": (
            "BatchBody CHECK CODE_CHANGES CODE_NEEDED CheckBody CodeChangesQuery ContentsBody DEEPEST "
            "DRY_RUN ExtrasBody FileBody LONGEST_KEY MISSING_CONTENTS SEND_PACK SEND_TREE SUBMIT "
            "SUBMIT_ALL SubmissionBody SubmitQuery"
        ),
    }
    _HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found
