// The frame of every page: the header, the page of the present path, and messages; or the login.

import { connected } from "../api/live.ts";
import { Button, Menu } from "../parts/controls.tsx";
import { ShownForm } from "../parts/form.tsx";
import icon from "../parts/icon.svg";
import { Tab } from "../parts/list.tsx";
import { Notices, notifyFailure } from "../parts/notices.tsx";
import { path } from "../state/place.ts";
import { entryError, logOut, page, user } from "../state/session.ts";
import { Login } from "./login.tsx";
import { LINKS, Routed } from "./routes.tsx";

const IN_HEADER = 6;

export function App() {
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
      <ShownForm />
    </>
  );
}

/** The pages, whether changes arrive, and the user. */
function Header() {
  const [, present = ""] = path.value.split("/");
  const links = LINKS.map(({ name, title, href }) => (
    <Tab key={name} href={href} on={name === (present || "runs") || name === `${present}s`}>
      {title}
    </Tab>
  ));
  return (
    <header class="header">
      <a class="row brand" href="/">
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
          <Button class="" label="Log out" onClick={() => logOut().catch(notifyFailure)} />
        </Menu>
      </span>
    </header>
  );
}
