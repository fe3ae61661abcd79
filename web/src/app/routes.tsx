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

/** The pages in the header, in its order. `more`: in the menu at its end. */
export const PAGES: { name: string; title: string; keys: string; more?: boolean }[] = [
  { name: "runs", title: "Runs", keys: "g r" },
  { name: "queue", title: "Queue", keys: "g q" },
  { name: "nodes", title: "Nodes", keys: "g n" },
  { name: "experiments", title: "Experiments", keys: "g e" },
  { name: "projects", title: "Projects", keys: "g p" },
  { name: "usage", title: "Usage", keys: "g u" },
  { name: "artifacts", title: "Artifacts", keys: "g a", more: true },
  { name: "datasets", title: "Datasets", keys: "g d", more: true },
  { name: "admin", title: "Administration", keys: "g m", more: true },
];

const LOADERS: Record<string, () => Promise<Page>> = {
  compare: async () => (await import("../pages/compare/page.tsx")).ComparePage,
  queue: async () => (await import("../pages/queue/page.tsx")).QueuePage,
  nodes: async () => (await import("../pages/nodes/page.tsx")).NodesPage,
  new: async () => (await import("../pages/new/page.tsx")).NewPage,
  experiments: async () => (await import("../pages/experiments/page.tsx")).ExperimentsPage,
  experiment: async () => (await import("../pages/experiment/page.tsx")).ExperimentPage,
  projects: async () => (await import("../pages/projects/page.tsx")).ProjectsPage,
  usage: async () => (await import("../pages/usage/page.tsx")).UsagePage,
  artifacts: async () => (await import("../pages/artifacts/page.tsx")).ArtifactsPage,
  datasets: async () => (await import("../pages/datasets/page.tsx")).DatasetsPage,
  admin: async () => (await import("../pages/admin/page.tsx")).AdminPage,
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
