// The table of pages by path. A page's module is loaded when it is first shown.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { RunsPage } from "../pages/runs/page.tsx";
import { notifyFailure } from "../parts/notices.tsx";

/** What a page gets: the part of the path after its own name. */
export interface PageProps {
  rest: string;
}

type Page = ComponentType<PageProps>;

/** The pages in the header, in its order. */
export const PAGES: { name: string; title: string; keys: string }[] = [
  { name: "runs", title: "Runs", keys: "g r" },
  { name: "queue", title: "Queue", keys: "g q" },
  { name: "nodes", title: "Nodes", keys: "g n" },
];

const LOADERS: Record<string, () => Promise<Page>> = {
  compare: async () => (await import("../pages/compare/page.tsx")).ComparePage,
  queue: async () => (await import("../pages/queue/page.tsx")).QueuePage,
  nodes: async () => (await import("../pages/nodes/page.tsx")).NodesPage,
  new: async () => (await import("../pages/new/page.tsx")).NewPage,
  run: async () => (await import("../pages/run/page.tsx")).RunPage,
};

const loaded = new Map<string, Page>([["runs", RunsPage]]);

export function Routed({ path }: { path: string }): JSX.Element {
  const [, name = "", ...rest] = path.split("/");
  const page = name || "runs";
  const [Shown, setShown] = useState<Page | undefined>(() => loaded.get(page));
  useEffect(() => {
    const load = LOADERS[page];
    if (Shown || !load) return;
    load().then((found) => {
      loaded.set(page, found);
      setShown(() => found);
    }, notifyFailure);
  }, [page]);
  if (Shown) return <Shown rest={decodeURIComponent(rest.join("/"))} />;
  if (page in LOADERS) return <p class="loading">Loading…</p>;
  return (
    <section class="message">
      <h1>There is no such page</h1>
      <p>
        <a href="/">All runs</a>
      </p>
    </section>
  );
}
