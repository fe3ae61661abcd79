// The editor of a run file: highlights it, and marks the problems that the server finds. Tab leaves it.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Problem } from "../../api/types.ts";

interface Props {
  text: string;
  onText: (text: string) => void;
  problems: Problem[];
  fixed: boolean;
  /** The problem to move to. */
  revealed: Problem | null;
}

// The marks of the library are images in its own style, which the content policy refuses: ours are lines.
const THEME = EditorView.theme({ ".cm-lintRange-error": { backgroundImage: "none" } });

export function Editor({ text, onText, problems, fixed, revealed }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);

  useEffect(() => {
    if (!place.current) return;
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: text,
        extensions: [
          EditorView.cspNonce.of(document.getElementById("first")?.dataset.nonce ?? ""),
          lineNumbers(),
          history(),
          highlightSpecialChars(),
          search({ top: true }),
          yaml(),
          syntaxHighlighting(classHighlighter),
          THEME,
          keymap.of([...defaultKeymap, ...searchKeymap, ...historyKeymap, ...lintKeymap]),
          EditorView.contentAttributes.of({ "aria-label": "Run file", tabindex: "0" }),
          EditorState.readOnly.of(fixed),
          EditorView.editable.of(!fixed),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) onText(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, []);

  useEffect(() => {
    const made = view.current;
    if (!made) return;
    const found = problems.filter(({ line }) => line !== null).map((each) => diagnostic(made, each));
    made.dispatch(setDiagnostics(made.state, found));
  }, [problems]);

  useLayoutEffect(() => {
    const made = view.current;
    if (!made || !revealed) return;
    made.dispatch({ selection: { anchor: rangeOf(made, revealed).from }, scrollIntoView: true });
    made.focus();
  }, [revealed]);

  return <div ref={place} class="editor" />;
}

function diagnostic(view: EditorView, problem: Problem): Diagnostic {
  const { message, hint } = problem;
  return { ...rangeOf(view, problem), severity: "error", message: hint ? `${message}\n${hint}` : message };
}

/** The word at the place of a problem, or the rest of its line. */
function rangeOf(view: EditorView, { line, column }: Problem): { from: number; to: number } {
  const doc = view.state.doc;
  const found = doc.line(Math.min(Math.max(1, line ?? 1), doc.lines));
  const from = Math.min(found.from + Math.max(0, (column ?? 1) - 1), found.to);
  const word = view.state.wordAt(from);
  return { from, to: word && word.to > from ? word.to : found.to };
}
