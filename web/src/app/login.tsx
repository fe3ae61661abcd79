// The login of a user who has an account here, and what else leads to this page.

import type { ErrorForm } from "../api/types.ts";
import { type Form, FormBody } from "../parts/form.tsx";
import { logIn } from "../state/session.ts";

const LOGIN: Form = {
  verb: "Log in",
  fields: [
    ["user", "User", "", { autocomplete: "username", autofocus: true }],
    ["password", "Password", "", { type: "password", autocomplete: "current-password" }],
  ],
  send: ({ user = "", password = "" }) => logIn(user, password),
};

export function Login({ error }: { error: ErrorForm | null }) {
  return (
    <main class="login stack">
      <h1>tarmac</h1>
      <FormBody form={LOGIN} first={error} />
      <p class="quiet">
        On your own machine, the command <code>tarmac ui</code> opens this page without a password.
      </p>
    </main>
  );
}
