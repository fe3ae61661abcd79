CREATE TABLE run (
	id TEXT COLLATE "C" NOT NULL,
	seq INTEGER NOT NULL,
	state TEXT NOT NULL,
	outcome TEXT,
	name TEXT NOT NULL,
	project TEXT NOT NULL,
	user_name TEXT NOT NULL,
	dialect TEXT NOT NULL,
	priority BIGINT NOT NULL,
	slots BIGINT NOT NULL,
	attempt INTEGER NOT NULL,
	cluster TEXT,
	created_at DOUBLE PRECISION NOT NULL,
	queued_at DOUBLE PRECISION,
	started_at DOUBLE PRECISION,
	ended_at DOUBLE PRECISION,
	message TEXT,
	cause TEXT,
	code_digest TEXT,
	failures INTEGER NOT NULL,
	faults INTEGER NOT NULL,
	preemptions INTEGER NOT NULL,
	idempotency_key TEXT,
	pool TEXT,
	mode TEXT DEFAULT 'batch' NOT NULL,
	turns INTEGER DEFAULT 0 NOT NULL,
	attained_slot_s DOUBLE PRECISION DEFAULT 0 NOT NULL,
	ran_s DOUBLE PRECISION DEFAULT 0 NOT NULL,
	queue_position TEXT,
	share TEXT,
	cycle_report TEXT,
	code_commit TEXT,
	cause_code TEXT,
	slot_type TEXT,
	system TEXT DEFAULT 'native' NOT NULL,
	image TEXT,
	max_turns INTEGER,
	server TEXT COLLATE "C" DEFAULT 'local' NOT NULL,
	retry TEXT,
	dependencies TEXT,
	array_id TEXT COLLATE "C",
	array_index BIGINT,
	excluded_nodes TEXT,
	CONSTRAINT pk_run PRIMARY KEY (id),
	CONSTRAINT uq_run_idempotency_key_user_name UNIQUE (idempotency_key, user_name),
	CONSTRAINT ck_run_state CHECK (state IN ('ended', 'paused', 'pausing', 'pending', 'preempting', 'queued', 'running', 'starting', 'stopping', 'submitted')),
	CONSTRAINT ck_run_outcome CHECK (outcome IN ('completed', 'failed', 'stopped')),
	CONSTRAINT ck_run_mode CHECK (mode IN ('batch', 'burst', 'cycle', 'interruptible'))
);

CREATE INDEX ix_run_project ON run (project, id);

CREATE INDEX ix_run_name ON run (name, id);

CREATE INDEX ix_run_ended_at ON run (ended_at, id);

CREATE INDEX ix_run_state ON run (state, id);

CREATE INDEX ix_run_user ON run (user_name, id);

CREATE INDEX ix_run_array ON run (array_id, array_index) WHERE array_id IS NOT NULL;

CREATE TABLE experiment (
	id TEXT COLLATE "C" NOT NULL,
	seq INTEGER NOT NULL,
	state TEXT NOT NULL,
	name TEXT NOT NULL,
	project TEXT NOT NULL,
	user_name TEXT NOT NULL,
	server TEXT COLLATE "C" NOT NULL,
	archived BOOLEAN NOT NULL,
	idempotency_key TEXT,
	spec TEXT NOT NULL,
	record TEXT NOT NULL,
	search_state TEXT,
	CONSTRAINT pk_experiment PRIMARY KEY (id),
	CONSTRAINT uq_experiment_idempotency_key_user_name UNIQUE (idempotency_key, user_name),
	CONSTRAINT ck_experiment_state CHECK (state IN ('active', 'ended', 'paused', 'stopping'))
);

CREATE INDEX ix_experiment_state ON experiment (state, id);

CREATE INDEX ix_experiment_name ON experiment (name, id);

CREATE TABLE number (
	kind TEXT COLLATE "C" NOT NULL,
	number BIGINT NOT NULL,
	of_id TEXT COLLATE "C" NOT NULL,
	CONSTRAINT pk_number PRIMARY KEY (kind, number),
	CONSTRAINT uq_number_kind_of_id UNIQUE (kind, of_id),
	CONSTRAINT ck_number_kind CHECK (kind IN ('experiment', 'trial'))
);

CREATE TABLE server (
	cluster TEXT COLLATE "C" NOT NULL,
	home TEXT NOT NULL,
	machine TEXT NOT NULL,
	hostname TEXT NOT NULL,
	path TEXT NOT NULL,
	token BIGINT NOT NULL,
	seen_at DOUBLE PRECISION NOT NULL,
	CONSTRAINT pk_server PRIMARY KEY (cluster)
);

CREATE TABLE node (
	name TEXT NOT NULL,
	drained BOOLEAN NOT NULL,
	drain TEXT,
	CONSTRAINT pk_node PRIMARY KEY (name)
);

CREATE TABLE usage (
	hour_at DOUBLE PRECISION NOT NULL,
	cluster TEXT COLLATE "C" NOT NULL,
	pool TEXT COLLATE "C" NOT NULL,
	user_name TEXT COLLATE "C" NOT NULL,
	project TEXT COLLATE "C" NOT NULL,
	group_id TEXT COLLATE "C" NOT NULL,
	slot_s DOUBLE PRECISION NOT NULL,
	CONSTRAINT pk_usage PRIMARY KEY (hour_at, cluster, pool, user_name, project, group_id)
);

CREATE TABLE cluster (
	name TEXT COLLATE "C" NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_cluster PRIMARY KEY (name)
);

CREATE TABLE dataset (
	id TEXT COLLATE "C" NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_dataset PRIMARY KEY (id)
);

CREATE TABLE secret (
	scope TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	number INTEGER NOT NULL,
	body TEXT NOT NULL,
	sealed TEXT NOT NULL,
	key_id TEXT NOT NULL,
	retired_at DOUBLE PRECISION,
	CONSTRAINT pk_secret PRIMARY KEY (name, scope, number)
);

CREATE TABLE run_spec (
	run_id TEXT COLLATE "C" NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_run_spec PRIMARY KEY (run_id),
	CONSTRAINT fk_run_spec_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE TABLE run_label (
	run_id TEXT COLLATE "C" NOT NULL,
	key TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_run_label PRIMARY KEY (run_id, key),
	CONSTRAINT fk_run_label_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE INDEX ix_run_label_pair ON run_label (key, value, run_id);

CREATE TABLE attempt (
	run_id TEXT COLLATE "C" NOT NULL,
	number INTEGER NOT NULL,
	state TEXT NOT NULL,
	engine TEXT NOT NULL,
	cluster TEXT NOT NULL,
	allocation TEXT NOT NULL,
	token TEXT NOT NULL,
	master_port INTEGER,
	created_at DOUBLE PRECISION NOT NULL,
	started_at DOUBLE PRECISION,
	ended_at DOUBLE PRECISION,
	leave_request TEXT,
	leave_requested_at DOUBLE PRECISION,
	outcome TEXT,
	cause TEXT,
	allotted_s DOUBLE PRECISION,
	milestones TEXT,
	home TEXT,
	released TEXT,
	granted_at DOUBLE PRECISION,
	native TEXT,
	CONSTRAINT pk_attempt PRIMARY KEY (run_id, number),
	CONSTRAINT ck_attempt_state CHECK (state IN ('ended', 'running', 'starting', 'submitted')),
	CONSTRAINT ck_attempt_leave_request CHECK (leave_request IN ('pause', 'preempt', 'stop', 'stop_now', 'time_limit')),
	CONSTRAINT ck_attempt_outcome CHECK (outcome IN ('completed', 'failed', 'lost', 'paused', 'preempted', 'stopped')),
	CONSTRAINT fk_attempt_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE INDEX ix_attempt_live ON attempt (run_id, number) WHERE state <> 'ended';

CREATE TABLE event (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY,
	run_id TEXT COLLATE "C" NOT NULL,
	seq INTEGER NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	event TEXT NOT NULL,
	state TEXT NOT NULL,
	detail TEXT,
	actor TEXT,
	CONSTRAINT pk_event PRIMARY KEY (id),
	CONSTRAINT uq_event_run_id_seq UNIQUE (run_id, seq),
	CONSTRAINT ck_event_event CHECK (event IN ('accepted', 'attempt_paused', 'dependency_met', 'faulted', 'finished', 'granted', 'pause_requested', 'placed', 'preempt_requested', 'released', 'reordered', 'resume_requested', 'retried', 'session_opened', 'staged', 'started', 'stop_requested', 'submitted', 'vacated')),
	CONSTRAINT ck_event_state CHECK (state IN ('ended', 'paused', 'pausing', 'pending', 'preempting', 'queued', 'running', 'starting', 'stopping', 'submitted')),
	CONSTRAINT fk_event_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE TABLE annotation (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY,
	run_id TEXT COLLATE "C" NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	actor TEXT NOT NULL,
	kind TEXT NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_annotation PRIMARY KEY (id),
	CONSTRAINT ck_annotation_kind CHECK (kind IN ('label', 'note')),
	CONSTRAINT fk_annotation_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE INDEX ix_annotation_run ON annotation (run_id, id);

CREATE TABLE run_record (
	run_id TEXT COLLATE "C" NOT NULL,
	kind TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	attempt INTEGER NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_run_record PRIMARY KEY (run_id, kind, name),
	CONSTRAINT ck_run_record_kind CHECK (kind IN ('checkpoint', 'metadata', 'search')),
	CONSTRAINT fk_run_record_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE INDEX ix_run_record_name ON run_record (kind, name);

CREATE TABLE metric_position (
	run_id TEXT COLLATE "C" NOT NULL,
	attempt INTEGER NOT NULL,
	node TEXT COLLATE "C" NOT NULL,
	read_to BIGINT NOT NULL,
	latest TEXT,
	CONSTRAINT pk_metric_position PRIMARY KEY (run_id, attempt, node),
	CONSTRAINT fk_metric_position_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE TABLE metric_series (
	run_id TEXT COLLATE "C" NOT NULL,
	grp TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	rank INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	closed INTEGER NOT NULL,
	totals TEXT NOT NULL,
	body BYTEA NOT NULL,
	CONSTRAINT pk_metric_series PRIMARY KEY (run_id, grp, name, rank),
	CONSTRAINT fk_metric_series_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE TABLE metric_chunk (
	run_id TEXT COLLATE "C" NOT NULL,
	grp TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" NOT NULL,
	rank INTEGER NOT NULL,
	number INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	body BYTEA NOT NULL,
	CONSTRAINT pk_metric_chunk PRIMARY KEY (run_id, grp, name, rank, number),
	CONSTRAINT fk_metric_chunk_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE TABLE metric_event (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY,
	subscriber TEXT NOT NULL,
	run_id TEXT COLLATE "C" NOT NULL,
	attempt INTEGER NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	step BIGINT,
	body TEXT NOT NULL,
	CONSTRAINT pk_metric_event PRIMARY KEY (id),
	CONSTRAINT fk_metric_event_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE INDEX ix_metric_event_subscriber ON metric_event (subscriber, id);

CREATE INDEX ix_metric_event_run ON metric_event (run_id);

CREATE TABLE notification (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY,
	run_id TEXT COLLATE "C" NOT NULL,
	key TEXT COLLATE "C" NOT NULL,
	server TEXT COLLATE "C" NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	body TEXT NOT NULL,
	tries INTEGER NOT NULL,
	due_at DOUBLE PRECISION,
	sent_at DOUBLE PRECISION,
	error TEXT,
	CONSTRAINT pk_notification PRIMARY KEY (id),
	CONSTRAINT uq_notification_run_id_key UNIQUE (run_id, key),
	CONSTRAINT fk_notification_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE INDEX ix_notification_due ON notification (server, due_at);

CREATE TABLE trial (
	experiment_id TEXT COLLATE "C" NOT NULL,
	number INTEGER NOT NULL,
	run_id TEXT COLLATE "C" NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_trial PRIMARY KEY (experiment_id, number),
	CONSTRAINT fk_trial_experiment_id FOREIGN KEY(experiment_id) REFERENCES experiment (id) ON DELETE CASCADE
);

CREATE INDEX ix_trial_run ON trial (run_id);
