// The server's time, which ages and durations count from: it moves once a second while the tab is visible.

import { signal } from "@preact/signals";
import { clockLead } from "./session.ts";

export const now = signal(Date.now() / 1000 + clockLead);

setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000 + clockLead;
}, 1000);
