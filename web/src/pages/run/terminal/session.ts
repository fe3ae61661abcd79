// One end of a session: frames in the answer to one request, and frames to it in other requests, as the server's
// `node.session.frames` describes them. A browser cannot write a body while it reads the answer.

import { Refusal, send } from "../../../api/request.ts";

const HEAD_BYTES = 5;
const PIECE_BYTES = 1 << 15;
const LOCK = "tarmac-terminal";
const MOST_OPEN = 4; // each holds one of the six connections that a browser has to a host
const BROKEN = "The connection broke, and what ran in this terminal was ended.";

type Bytes = Uint8Array<ArrayBuffer>;

export class Session {
  readonly #key = crypto.randomUUID();
  readonly #leave = new AbortController();
  #typed: Bytes = new Uint8Array();
  #orders: Bytes = new Uint8Array();
  #room = 1 << 18;
  #busy = true; // until the session has begun

  /** Run a command, and show its output as fast as `show` takes it. How it ended; raises Refusal. */
  async run(
    run: string,
    opening: object,
    onBegin: () => void,
    show: (bytes: Bytes) => Promise<void>,
  ): Promise<string> {
    const { signal } = this.#leave;
    const { held } = await navigator.locks.query();
    if ((held?.filter(({ name }) => name === LOCK).length ?? 0) >= MOST_OPEN)
      throw new Refusal({ message: `${MOST_OPEN} terminals are open in this browser: close one of them.` });
    const closed = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    void navigator.locks.request(LOCK, { mode: "shared" }, () => closed);
    try {
      const body = new Blob([frame("o", { ...opening, key: this.#key })]);
      const answer = await send("POST /runs/{run}/sessions", { path: { run }, body, signal });
      for await (const [kind, content] of framesOf(answer)) {
        if (kind === "1") await show(content);
        const found = "OFE+".includes(kind) ? JSON.parse(new TextDecoder().decode(content)) : {};
        if (kind === "F") throw new Refusal({ message: found.message });
        if (kind === "E")
          return (
            found.message ?? `ended: ${found.signal ? `signal ${found.signal}` : `exit ${found.exit_code}`}`
          );
        if (kind === "O") this.#busy = false;
        if (kind === "O") onBegin();
        this.#room += found.bytes ?? 0;
        void this.#flush();
      }
    } catch (problem) {
      if (problem instanceof Refusal) throw problem;
    } finally {
      this.close();
    }
    throw signal.reason instanceof Refusal ? signal.reason : new Refusal({ message: BROKEN });
  }

  write(bytes: Bytes): void {
    this.#typed = joined(this.#typed, bytes);
    void this.#flush();
  }

  resize(rows: number, columns: number): void {
    this.#orders = joined(this.#orders, frame("r", { rows, columns }));
    void this.#flush();
  }

  close(): void {
    this.#leave.abort();
  }

  /** Send what waits, one request at a time and within the room that the other end has. */
  async #flush(): Promise<void> {
    const { signal } = this.#leave;
    const piece = this.#typed.slice(0, Math.min(PIECE_BYTES, this.#room));
    if (this.#busy || signal.aborted || piece.length + this.#orders.length === 0) return;
    this.#busy = true;
    const body = new Blob([this.#orders, piece.length > 0 ? frame("i", piece) : ""]);
    this.#typed = this.#typed.slice(piece.length);
    this.#room -= piece.length;
    this.#orders = new Uint8Array();
    try {
      await send("POST /sessions/{session}", { path: { session: this.#key }, body, signal });
    } catch (problem) {
      if (!(problem instanceof Refusal && problem.status === 404)) this.#leave.abort(problem); // 404: it has ended
    }
    this.#busy = false;
    void this.#flush();
  }
}

async function* framesOf(answer: Response): AsyncGenerator<[kind: string, content: Bytes]> {
  const reader = answer.body?.getReader();
  let waiting: Bytes = new Uint8Array();
  for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
    waiting = joined(waiting, read.value);
    while (waiting.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + new DataView(waiting.buffer).getUint32(1);
      if (waiting.length < end) break;
      yield [String.fromCharCode(waiting[0] ?? 0), waiting.slice(HEAD_BYTES, end)];
      waiting = waiting.slice(end);
    }
  }
}

function frame(kind: string, content: Uint8Array | object): Bytes {
  const bytes = content instanceof Uint8Array ? content : new TextEncoder().encode(JSON.stringify(content));
  const head = new Uint8Array(HEAD_BYTES);
  head[0] = kind.charCodeAt(0);
  new DataView(head.buffer).setUint32(1, bytes.length);
  return joined(head, bytes);
}

function joined(one: Uint8Array, other: Uint8Array): Bytes {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}
