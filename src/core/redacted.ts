/** Stands in place of a credential. */
const REDACTED = '[redacted]';

const NAMES = 'pass(?:word|wd|phrase)|pwd|secret|token|credential|(?:api|access|account|private|signing)[_-]?key';
const NAME = /* @__PURE__ */ new RegExp(NAMES, 'i');

/** Whether a field of this name may hold a credential. */
export function isCredentialName(name: string): boolean {
  return NAME.test(name);
}

type Credential = readonly [pattern: RegExp, replacement: string];

/** Made at the first use: most bundles of functions have no use for them. */
let made: readonly Credential[] | undefined;

/**
 * Texts that are credentials by their form or by the name before them, each with what stands in its place. No pattern
 * looks at a character more than a bounded number of times, because the texts come from functions.
 */
function credentials(): readonly Credential[] {
  const { raw } = String;
  // JSON writes a line break as two characters, of which the second is a letter.
  const before = raw`(?<=^|[^\w-]|\\[nrt])`;
  const name = raw`(?:${NAMES})[\w-]{0,20}(?:\\?["'])?`;
  const quoted = raw`(?:\\?"[^"\n]{1,300}"|'[^'\n]{1,300}')`;
  const word = raw`[^\s"',;&]`;
  const known = raw`gh[pousr]_|github_pat_|glpat-|xox[a-z]-|[rs]k_(?:live|test)_|AIza|npm_|sk-`;
  const patterns: readonly (readonly [pattern: string, replacement?: string])[] = [
    [raw`-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^]{0,8000}?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)`],
    // JSON Web Tokens: those of ServiceAccounts are of this form.
    [raw`${before}eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?`],
    [raw`${before}whsec_[\w+/=-]+`],
    // GitHub, GitLab, Slack, Stripe, Google, npm, OpenAI and Anthropic; AWS.
    [raw`${before}(?:${known})[\w-]{16,}`],
    [raw`${before}(?:AKIA|ASIA)[0-9A-Z]{16}\b`],
    [raw`${before}(Bearer|Basic) +[\w.~+/=-]{8,}`, `$1 ${REDACTED}`],
    // `password=...`, `"apiKey": "..."`, `token:...`
    [raw`(${name}\s{0,3}=\s{0,3})(?:${quoted}|${word}+)`, `$1${REDACTED}`],
    [raw`(${name}:\s{0,3})${quoted}`, `$1${REDACTED}`],
    [raw`(${name}:)(?!\\|\[redacted)${word}+`, `$1${REDACTED}`],
    // Behind a colon and a space stands a sentence rather than a value, unless it has a digit.
    [raw`(${name}: )(?!\[redacted)(?=${word}{0,200}\d)${word}{8,}`, `$1${REDACTED}`],
  ];
  return patterns.map(([pattern, replacement = REDACTED]) => [new RegExp(pattern, 'gi'), replacement]);
}

/**
 * The text without what looks like a credential. Functions must send none; this catches what a library puts into the
 * text of an error. It knows forms and names, so it finds neither all secrets nor only secrets.
 */
export function redacted(text: string): string {
  let shown = text.includes('://') ? text.replace(/[^\s"']+/g, withoutPassword) : text;
  for (const [pattern, replacement] of (made ??= credentials())) shown = shown.replace(pattern, replacement);
  return shown;
}

/**
 * Takes the password out of `https://user:password@host`, in a word of a text; a port is none. A pattern for it would
 * look at each character two hundred times in a text that is made for that.
 */
function withoutPassword(word: string): string {
  const end = word.lastIndexOf('@');
  for (let at = word.indexOf('://'); at >= 0 && at < end; at = word.indexOf('://', at + 3)) {
    USER.lastIndex = at + 3;
    if (USER.test(word) && USER.lastIndex < end) return `${word.slice(0, USER.lastIndex)}${REDACTED}${word.slice(end)}`;
  }
  return word;
}

const USER = /[^/:@]{0,200}:(?!\d{1,5}\/)/y;
