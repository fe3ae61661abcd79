CREATE TABLE run (
	id TEXT NOT NULL,
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
	created_at DOUBLE NOT NULL,
	queued_at DOUBLE,
	started_at DOUBLE,
	ended_at DOUBLE,
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
	attained_slot_s DOUBLE DEFAULT 0 NOT NULL,
	ran_s DOUBLE DEFAULT 0 NOT NULL,
	queue_position TEXT,
	share TEXT,
	cycle_report TEXT,
	code_commit TEXT,
	cause_code TEXT,
	slot_type TEXT,
	system TEXT DEFAULT 'native' NOT NULL,
	image TEXT,
	max_turns INTEGER,
	server TEXT DEFAULT 'local' NOT NULL,
	retry TEXT,
	CONSTRAINT pk_run PRIMARY KEY (id),
	CONSTRAINT uq_run_idempotency_key_user_name UNIQUE (idempotency_key, user_name),
	CONSTRAINT ck_run_state CHECK (state IN ('ended', 'paused', 'pausing', 'pending', 'preempting', 'queued', 'running', 'starting', 'stopping', 'submitted')),
	CONSTRAINT ck_run_outcome CHECK (outcome IN ('completed', 'failed', 'stopped')),
	CONSTRAINT ck_run_mode CHECK (mode IN ('batch', 'burst', 'cycle', 'interruptible'))
);

CREATE INDEX ix_run_ended_at ON run (ended_at, id);

CREATE INDEX ix_run_project ON run (project, id);

CREATE INDEX ix_run_user ON run (user_name, id);

CREATE INDEX ix_run_state ON run (state, id);

CREATE INDEX ix_run_name ON run (name, id);

CREATE TABLE server (
	cluster TEXT NOT NULL,
	home TEXT NOT NULL,
	machine TEXT NOT NULL,
	hostname TEXT NOT NULL,
	path TEXT NOT NULL,
	token BIGINT NOT NULL,
	seen_at DOUBLE NOT NULL,
	CONSTRAINT pk_server PRIMARY KEY (cluster)
);

CREATE TABLE node (
	name TEXT NOT NULL,
	drained BOOLEAN NOT NULL,
	CONSTRAINT pk_node PRIMARY KEY (name)
);

CREATE TABLE usage (
	hour_at DOUBLE NOT NULL,
	cluster TEXT NOT NULL,
	pool TEXT NOT NULL,
	user_name TEXT NOT NULL,
	project TEXT NOT NULL,
	slot_s DOUBLE NOT NULL,
	CONSTRAINT pk_usage PRIMARY KEY (hour_at, cluster, pool, user_name, project)
);

CREATE TABLE cluster (
	name TEXT NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_cluster PRIMARY KEY (name)
);

CREATE TABLE dataset (
	id TEXT NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_dataset PRIMARY KEY (id)
);

CREATE TABLE secret (
	scope TEXT NOT NULL,
	name TEXT NOT NULL,
	number INTEGER NOT NULL,
	body TEXT NOT NULL,
	sealed TEXT NOT NULL,
	key_id TEXT NOT NULL,
	retired_at DOUBLE,
	CONSTRAINT pk_secret PRIMARY KEY (name, scope, number)
);

CREATE TABLE run_spec (
	run_id TEXT NOT NULL,
	body TEXT NOT NULL,
	CONSTRAINT pk_run_spec PRIMARY KEY (run_id),
	CONSTRAINT fk_run_spec_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE TABLE run_label (
	run_id TEXT NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	CONSTRAINT pk_run_label PRIMARY KEY (run_id, "key"),
	CONSTRAINT fk_run_label_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE INDEX ix_run_label_pair ON run_label ("key", value, run_id);

CREATE TABLE attempt (
	run_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	state TEXT NOT NULL,
	engine TEXT NOT NULL,
	cluster TEXT NOT NULL,
	allocation TEXT NOT NULL,
	token TEXT NOT NULL,
	master_port INTEGER,
	created_at DOUBLE NOT NULL,
	started_at DOUBLE,
	ended_at DOUBLE,
	leave_request TEXT,
	leave_requested_at DOUBLE,
	outcome TEXT,
	cause TEXT,
	allotted_s DOUBLE,
	milestones TEXT,
	home TEXT,
	released TEXT,
	granted_at DOUBLE,
	native TEXT,
	CONSTRAINT pk_attempt PRIMARY KEY (run_id, number),
	CONSTRAINT ck_attempt_state CHECK (state IN ('ended', 'running', 'starting', 'submitted')),
	CONSTRAINT ck_attempt_leave_request CHECK (leave_request IN ('pause', 'preempt', 'stop', 'time_limit')),
	CONSTRAINT ck_attempt_outcome CHECK (outcome IN ('completed', 'failed', 'lost', 'paused', 'preempted', 'stopped')),
	CONSTRAINT fk_attempt_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);

CREATE INDEX ix_attempt_live ON attempt (run_id, number) WHERE state <> 'ended';

CREATE TABLE event (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	run_id TEXT NOT NULL,
	seq INTEGER NOT NULL,
	at DOUBLE NOT NULL,
	event TEXT NOT NULL,
	state TEXT NOT NULL,
	detail TEXT,
	actor TEXT,
	CONSTRAINT uq_event_run_id_seq UNIQUE (run_id, seq),
	CONSTRAINT ck_event_event CHECK (event IN ('accepted', 'attempt_paused', 'faulted', 'finished', 'granted', 'pause_asked', 'placed', 'preempt_asked', 'released', 'reordered', 'resume_asked', 'retried', 'staged', 'started', 'stop_asked', 'submitted', 'vacated')),
	CONSTRAINT ck_event_state CHECK (state IN ('ended', 'paused', 'pausing', 'pending', 'preempting', 'queued', 'running', 'starting', 'stopping', 'submitted')),
	CONSTRAINT fk_event_run_id FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
