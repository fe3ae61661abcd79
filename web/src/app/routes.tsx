// The table of pages by path. A page's module is loaded when it is first shown.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { RunsPage } from "../pages/runs/page.tsx";
import { Button } from "../parts/controls.tsx";

/** What a page gets: the part of the path after its own name. */
export interface PageProps {
  rest: string;
}

type Page = ComponentType<PageProps>;

/** The pages by the first part of their paths. Those with a letter are in the header; `g` and the letter go there. */
const PAGES: Record<string, [key: string, load: () => Promise<Page>]> = {
  runs: ["r", async () => RunsPage],
  queue: ["q", async () => (await import("../pages/queue/page.tsx")).QueuePage],
  nodes: ["n", async () => (await import("../pages/nodes/page.tsx")).NodesPage],
  experiments: ["e", async () => (await import("../pages/experiment/page.tsx")).ExperimentsPage],
  projects: ["p", async () => (await import("../pages/usage/page.tsx")).ProjectsPage],
  usage: ["u", async () => (await import("../pages/usage/page.tsx")).UsagePage],
  artifacts: ["a", async () => (await import("../pages/data/page.tsx")).ArtifactsPage],
  datasets: ["d", async () => (await import("../pages/data/page.tsx")).DatasetsPage],
  shapes: ["s", async () => (await import("../pages/burst/page.tsx")).ShapesPage],
  admin: ["m", async () => (await import("../pages/admin/page.tsx")).AdminPage],
  compare: ["", async () => (await import("../pages/compare/page.tsx")).ComparePage],
  new: ["", async () => (await import("../pages/new/page.tsx")).NewPage],
  experiment: ["", async () => (await import("../pages/experiment/page.tsx")).ExperimentPage],
  run: ["", async () => (await import("../pages/run/page.tsx")).RunPage],
};

/** The pages of the header. */
export const LINKS = Object.entries(PAGES).flatMap(([name, [key]]) => {
  const title = name === "admin" ? "Administration" : name.replace(/^./, (letter) => letter.toUpperCase());
  return key ? { name, key, title, href: name === "runs" ? "/" : `/${name}` } : [];
});

const loaded = new Map<string, Page>([["runs", RunsPage]]);

export function Routed({ path }: { path: string }) {
  const [, name = "", ...rest] = path.split("/");
  const page = name || "runs";
  const [Shown, setShown] = useState<Page | undefined>(() => loaded.get(page));
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    PAGES[page]?.[1]().then(
      (found) => {
        loaded.set(page, found);
        setShown(() => found);
      },
      () => setFailed(true),
    );
  }, []);
  if (failed)
    return (
      <section class="message">
        <h1>This page did not come</h1>
        <p>The server does not answer, or has another version by now.</p>
        <Button label="Reload" onClick={() => location.reload()} />
      </section>
    );
  if (Shown) return <Shown rest={decodeURIComponent(rest.join("/"))} />;
  if (page in PAGES) return <p class="loading">Loading…</p>;
  return (
    <section class="message">
      <h1>There is no such page</h1>
      <a href="/">All runs</a>
    </section>
  );
}
