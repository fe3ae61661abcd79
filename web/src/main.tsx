// The page's first module: follows links and changes, and draws the application.

import { render } from "preact";
import { follow } from "./api/live.ts";
import { App } from "./app/app.tsx";
import { followKeys } from "./app/keys.tsx";
import "./parts/signs.ts";
import { followLinks } from "./state/place.ts";
import { user } from "./state/session.ts";
import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/pages.css";
import "./style/plots.css";

followLinks();
followKeys();
user.subscribe((name) => {
  if (name !== null) follow();
});
const root = document.getElementById("app");
if (root) render(<App />, root);
