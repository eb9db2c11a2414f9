import { UserError } from '../../core/index.ts';
import { readWords } from './words.ts';

/** A static token for everything of the gateway that is not public. */
export interface AdminToken {
  /** For the audit log. Two tokens may share it while one is rotated. */
  readonly name: string;
  /** `change` includes reading. */
  readonly right: 'read' | 'change';
  readonly token: string;
}

const SETTING = { texts: 'adminTokens', file: 'adminTokensFile', what: 'token' } as const;

/**
 * Static tokens: `NAME:read:TOKEN` or `NAME:change:TOKEN` each; in a file separated by blanks or lines.
 * @throws UserError naming the variable or the file, and the place of the wrong token. Never shows a token.
 */
export function readAdminTokens(texts: readonly string[], file: string | undefined): AdminToken[] {
  const { words, where } = readWords(SETTING, texts, file);
  return tokensOf(words, where);
}

function tokensOf(texts: readonly string[], where: string): AdminToken[] {
  const tokens = texts.map((text, at) => tokenOf(text, `${where} is wrong: token ${at + 1} of ${texts.length}`));
  for (const [at, { token }] of tokens.entries()) {
    if (tokens.findIndex((other) => other.token === token) < at) {
      throw new UserError(`${where} is wrong: token ${at + 1} of ${texts.length} is there twice.`);
    }
  }
  return tokens;
}

/** Nothing of it is shown: without a colon it may be the token alone. */
function tokenOf(text: string, which: string): AdminToken {
  const [, name = '', right = '', token = ''] = /^([^:]*):([^:]*):(.*)$/.exec(text) ?? [];
  if (!/^[A-Za-z0-9_.@-]{1,63}$/.test(name)) {
    throw new UserError(`${which} must begin with a name of letters, digits, dots, @, - and _, and a colon.`);
  }
  if (right !== 'read' && right !== 'change') {
    throw new UserError(`${which} must have read or change, and a colon, behind its name.`);
  }
  if (!/^[\x21-\x7e]{16,}$/.test(token)) {
    throw new UserError(`${which} must have at least 16 characters behind its right.`);
  }
  return { name, right, token };
}
