// Commands as a person types them.

type Word = string | false | null | undefined;
type Options = Record<string, Word | number | true>;

/** A command line of words, and options by their names, quoted for a shell; what has no value is left out. */
export function commandLine(...words: (Word | Options)[]): string {
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
