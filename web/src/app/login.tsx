// The login of a user who has an account here, and what else leads to this page.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Refusal } from "../api/request.ts";
import type { ErrorForm } from "../api/types.ts";
import { logIn } from "../state/session.ts";

export function Login({ error }: { error: ErrorForm | null }): JSX.Element {
  const [failure, setFailure] = useState<Pick<ErrorForm, "message" | "hint"> | null>(error);
  const [waits, setWaits] = useState(false);
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    const fields = new FormData(event.target as HTMLFormElement);
    setWaits(true);
    try {
      await logIn(String(fields.get("user")), String(fields.get("password")));
    } catch (problem) {
      if (!(problem instanceof Refusal)) throw problem;
      setFailure(problem);
    } finally {
      setWaits(false);
    }
  }
  return (
    <main class="login">
      <h1>tarmac</h1>
      <form onSubmit={(event) => void submit(event)}>
        <label>
          User
          <input name="user" autocomplete="username" required autofocus />
        </label>
        <label>
          Password
          <input name="password" type="password" autocomplete="current-password" required />
        </label>
        <button type="submit" class="button primary" disabled={waits}>
          Log in
        </button>
        {failure && (
          <p class="failed" role="alert">
            {failure.message} {failure.hint && <span class="hint">{failure.hint}</span>}
          </p>
        )}
      </form>
      <p class="quiet">
        On your own machine, the command <code>tarmac ui</code> opens this page without a password.
      </p>
    </main>
  );
}
