// The screen of a terminal: what a program writes changes its text and colours, and nothing outside of it.

import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import type { Refusal } from "../../../api/request.ts";
import { HUES } from "../logs/text.ts";
import { Session } from "./session.ts";

const SCROLLBACK_LINES = 10_000;
const NAMES = ["Black", "Red", "Green", "Yellow", "Blue", "Magenta", "Cyan", "White"];

/** Orders to the terminal itself: its title, colours, links and clipboard. None has an effect. */
const ORDERS = [0, 1, 2, 4, 7, 8, 9, 10, 11, 12, 50, 52, 104, 110, 111, 112, 777, 1337];

/** Characters that reorder text. */
const REORDERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Run the command of a `SessionBody` in a terminal; `onState` gets null once it runs, then how it ended. Returns how to close it. */
export function openScreen(
  element: HTMLElement,
  run: string,
  opening: object,
  onState: (end: string | null) => void,
): () => void {
  const { fontFamily, fontSize } = getComputedStyle(element);
  const terminal = new Terminal({
    fontFamily,
    fontSize: Number.parseFloat(fontSize),
    scrollback: SCROLLBACK_LINES,
    minimumContrastRatio: 4.5,
    theme: themeOf(element),
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  for (const order of ORDERS) terminal.parser.registerOscHandler(order, () => true);
  terminal.open(element);
  fit.fit();
  terminal.focus();
  const session = new Session();
  const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];
  terminal.onData((text) => session.write(encoder.encode(text)));
  terminal.onResize(({ rows, cols: columns }) => session.resize(rows, columns));
  terminal.attachCustomKeyEventHandler(({ ctrlKey, key }) => {
    const copies = ctrlKey && (key === "v" || (key === "c" && terminal.hasSelection()));
    const leaves = key === "F6" || (key === "Tab" && terminal.options.disableStdin);
    return !copies && !leaves; // these are the browser's own
  });
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(element);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.onchange = () => (terminal.options.theme = themeOf(element));

  function show(bytes: Uint8Array): Promise<void> {
    const text = decoder.decode(bytes, { stream: true }).replace(REORDERING, "\ufffd");
    return new Promise((resolve) => terminal.write(text, resolve));
  }
  const size = { rows: terminal.rows, columns: terminal.cols, name: "xterm-256color" };
  session
    .run(run, { ...opening, stdin: true, terminal: size }, () => onState(null), show)
    .catch((problem: Refusal) => [problem.message, problem.hint].filter(Boolean).join(" "))
    .then((end) => {
      terminal.options.disableStdin = true;
      onState(end);
    });
  return () => {
    session.close();
    observer.disconnect();
    scheme.onchange = null;
    terminal.dispose();
  };
}

/** The colours of the page as a terminal's, in the present scheme. */
function themeOf(element: HTMLElement): ITheme {
  const probe = element.appendChild(document.createElement("span"));
  const colour = (token: string) => {
    probe.style.color = `var(--${token})`;
    return getComputedStyle(probe).color;
  };
  const [ink, paper, mark, ...hues] = ["ink", "paper", "mark", ...HUES].map(colour);
  probe.remove();
  const named = NAMES.flatMap((name, index) => [
    [name.toLowerCase(), hues[index]],
    [`bright${name}`, hues[index]],
  ]);
  const screen = { foreground: ink, background: paper, selectionBackground: mark };
  return { ...screen, cursor: ink, cursorAccent: paper, ...Object.fromEntries(named) };
}
