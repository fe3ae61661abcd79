// The frame of every page: the header, the page of the present path, and messages; or the login.

import type { JSX } from "preact";
import { connected } from "../api/live.ts";
import icon from "../parts/icon.svg";
import { Menu } from "../parts/menu.tsx";
import { Notices, notifyFailure } from "../parts/notices.tsx";
import { path } from "../state/place.ts";
import { entryError, logOut, page, user } from "../state/session.ts";
import { Keys } from "./keys.tsx";
import { Login } from "./login.tsx";
import { LINKS, Routed } from "./routes.tsx";

const IN_HEADER = 6;

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
          {announcement.text} — {announcement.user}
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

/** The pages, whether changes arrive, and the user. */
function Header(): JSX.Element {
  const [, present = ""] = path.value.split("/");
  const links = LINKS.map(({ name, title, href }) => {
    const shown = name === (present || "runs") || name === `${present}s`;
    return (
      <a key={name} href={href} aria-current={shown ? "page" : undefined}>
        {title}
      </a>
    );
  });
  return (
    <header class="header">
      <a class="brand" href="/">
        <img src={icon} alt="" width="18" height="18" />
        tarmac
      </a>
      <nav aria-label="Pages">
        {links.slice(0, IN_HEADER)}
        <Menu label="More" class="quiet">
          {links.slice(IN_HEADER)}
        </Menu>
      </nav>
      <span class="bar-end">
        {connected.value === false && (
          <span class="waiting" role="status">
            reconnecting…
          </span>
        )}
        <Menu label={user.value} class="quiet">
          <p class="menu-note">tarmac {page.value?.version}</p>
          <button type="button" onClick={() => logOut().catch(notifyFailure)}>
            Log out
          </button>
        </Menu>
      </span>
    </header>
  );
}
