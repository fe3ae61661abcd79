// The header: the pages, whether changes arrive, and the user.

import type { JSX } from "preact";
import { connected } from "../api/live.ts";
import icon from "../parts/icon.svg";
import { Menu } from "../parts/menu.tsx";
import { notifyFailure } from "../parts/notices.tsx";
import { path } from "../state/place.ts";
import { logOut, page, user } from "../state/session.ts";
import { PAGES } from "./routes.tsx";

export function Header(): JSX.Element {
  const named = path.value.split("/")[1] || "runs";
  const present = { run: "runs", experiment: "experiments" }[named] ?? named;
  return (
    <header class="header">
      <a class="brand" href="/">
        <img src={icon} alt="" width="18" height="18" />
        tarmac
      </a>
      <nav aria-label="Pages">
        {PAGES.filter(({ more }) => !more).map((page) => (
          <PageLink key={page.name} page={page} present={present} />
        ))}
        <Menu label="More" class="quiet">
          {PAGES.filter(({ more }) => more).map((page) => (
            <PageLink key={page.name} page={page} present={present} />
          ))}
        </Menu>
      </nav>
      <span class="header-end">
        {connected.value === false && (
          <span class="offline" role="status">
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

function PageLink({ page, present }: { page: (typeof PAGES)[number]; present: string }): JSX.Element {
  const { name, title } = page;
  return (
    <a href={name === "runs" ? "/" : `/${name}`} aria-current={name === present ? "page" : undefined}>
      {title}
    </a>
  );
}
