// Commands as a person types them, and the changes of labels in them.

type Word = string | false | null | undefined;
type Options = Record<string, Word | number | true>;

/** The words of a command after `tarmac`, and options by their names. */
export type Words = (Word | Options)[];

/** A command line, quoted for a shell; what has no value is left out. */
export function commandLine(...words: Words): string {
  const options = (word: Options) =>
    Object.entries(word)
      .filter(([, value]) => value || value === 0)
      .flatMap(([name, value]) => [`--${name.replace("_", "-")}`, value === true ? null : String(value)]);
  const given = words.flatMap((word) => (word instanceof Object ? options(word) : word));
  return ["tarmac", ...given.filter((word) => typeof word === "string").map(quoted)].join(" ");
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

const CHANGE = /^([^=]+?)(?:=(.*)|-)$/; // KEY=VALUE, or KEY- to remove one

/** What an input for one change has. */
export const LABEL_INPUT = {
  placeholder: "KEY=VALUE, or KEY- to remove it",
  required: true,
  pattern: "[^=]+=.*|[^=]+-",
};

/** The change of labels in a text. */
export function labelChange(text: string): Record<string, string | null> {
  const [, key = "", value] = CHANGE.exec(text) ?? [];
  return { [key]: value ?? null };
}
