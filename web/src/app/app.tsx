// The frame of every page: the header, the page of the present path, and messages; or the login.

import type { JSX } from "preact";
import { Notices } from "../parts/notices.tsx";
import { path } from "../state/place.ts";
import { entryError, page, user } from "../state/session.ts";
import { Header } from "./header.tsx";
import { Keys } from "./keys.tsx";
import { Login } from "./login.tsx";
import { Routed } from "./routes.tsx";

export function App(): JSX.Element {
  if (user.value === null) return <Login error={entryError.value} />;
  const announcement = page.value?.announcement;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <Header />
      {announcement && (
        <p class="announcement" role="status">
          {announcement.text} <span class="quiet">— {announcement.user}</span>
        </p>
      )}
      <main id="main" tabIndex={-1}>
        <Routed key={path.value.split("/")[1]} path={path.value} />
      </main>
      <Notices />
      <Keys />
    </>
  );
}
