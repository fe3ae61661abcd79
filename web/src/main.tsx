// The page's first module: follows links and changes, and draws the application.

import { render } from "preact";
import { follow } from "./api/live.ts";
import { App } from "./app/app.tsx";
import "./parts/signs.ts";
import { followLinks } from "./state/place.ts";
import { user } from "./state/session.ts";
import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/table.css";
import "./style/pages.css";
import "./style/logs.css";
import "./style/curves.css";
import "./style/cluster.css";
import "./style/new.css";
import "./style/people.css";

followLinks();
user.subscribe((name) => {
  if (name !== null) follow();
});
const root = document.getElementById("app");
if (root) render(<App />, root);
