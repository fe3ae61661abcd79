// Changes of runs as they happen: one event stream for all tabs of a browser, closed while none is visible.
//
// The visible tab that holds the lock reads the stream, and passes its messages to the others. The stream
// resumes where it ended, so a restarted server or a tab that was hidden loses no change.

import { signal } from "@preact/signals";
import { urlOf } from "./request.ts";
import type { RunChanges } from "./types.ts";

/** Whether changes arrive; null before the first connection. */
export const connected = signal<boolean | null>(null);

type Listener = (changes: RunChanges) => void;
type Message = { kind: "runs"; changes: RunChanges } | { kind: "connected"; value: boolean };

const LOCK = "tarmac-changes";
const listeners = new Set<Listener>();
const others = new BroadcastChannel(LOCK);
let last: number | null = null;
let release: (() => void) | null = null;

/** Call `listener` with every message of changes; returns how to stop that. */
export function onChanges(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Begin to read changes while the tab is visible. */
export function follow(): void {
  others.onmessage = ({ data }: MessageEvent<Message>) => take(data);
  document.addEventListener("visibilitychange", adapt);
  addEventListener("pagehide", () => release?.());
  adapt();
}

function adapt(): void {
  if (document.hidden) release?.();
  else if (release === null) void read();
}

async function read(): Promise<void> {
  const leave = new AbortController();
  release = () => {
    leave.abort();
    release = null;
  };
  const over = new Promise((resolve) => leave.signal.addEventListener("abort", resolve));
  const held = async () => {
    const stream = open();
    await over;
    stream.close();
  };
  await navigator.locks.request(LOCK, { signal: leave.signal }, held).catch((problem) => {
    if (!(problem instanceof DOMException)) throw problem;
  });
}

function open(): EventSource {
  const query = last === null ? {} : { after: last };
  const stream = new EventSource(urlOf("GET /tables/runs/changes", { query }));
  stream.onopen = () => tell({ kind: "connected", value: true });
  stream.onerror = () => tell({ kind: "connected", value: false });
  stream.addEventListener("runs", ({ data }: MessageEvent<string>) => {
    tell({ kind: "runs", changes: JSON.parse(data) as RunChanges });
  });
  return stream;
}

function tell(message: Message): void {
  others.postMessage(message);
  take(message);
}

function take(message: Message): void {
  if (message.kind === "connected") connected.value = message.value;
  else {
    last = message.changes.until;
    for (const listener of listeners) listener(message.changes);
  }
}
