// The first module of a terminal, `/run/ID/terminal`. Links load another document: the rules of this one are looser.

import { render } from "preact";
import { Login } from "./app/login.tsx";
import { TerminalPage } from "./pages/run/terminal/page.tsx";
import { path } from "./state/place.ts";
import { user } from "./state/session.ts";
import "@xterm/xterm/css/xterm.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/terminal.css";

const run = decodeURIComponent(path.value.split("/")[2] ?? "");
const root = document.getElementById("app");
const App = () => (user.value === null ? <Login error={null} /> : <TerminalPage id={run} />);
if (root) render(<App />, root);
