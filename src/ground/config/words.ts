import { readFileSync } from 'node:fs';
import { messageOf, UserError } from '../../core/index.ts';
import { type SettingName, variableOf } from './config.ts';

/** A setting of several words, and the setting of a file that holds them instead. */
export interface WordsSetting {
  readonly texts: SettingName;
  readonly file: SettingName;
  /** One word, for the error of an empty file: `key`. */
  readonly what: string;
}

/** Words, and where they are from. */
export interface Words {
  readonly words: readonly string[];
  /** The variable, with the path of the file if they are from there: the first words of an error about one of them. */
  readonly where: string;
}

/**
 * Reads the words of a setting, or of its file, where blanks, lines or commas separate them.
 * @param texts the words of the setting; empty when it is not set. @param file undefined when it is not set.
 * @throws UserError naming the variable and the file when both are set, or the file cannot be read or is empty. Never
 *   shows a word.
 */
export function readWords(setting: WordsSetting, texts: readonly string[], file: string | undefined): Words {
  const [ofTexts, ofFile] = [variableOf(setting.texts), variableOf(setting.file)];
  if (file === undefined) return { words: texts, where: ofTexts };
  if (texts.length > 0) throw new UserError(`${ofTexts} and ${ofFile} are both set: set one of them.`);
  const where = `${ofFile} ${file}`;
  let content: string;
  try {
    content = readFileSync(file, 'utf8');
  } catch (error) {
    throw new UserError(`${where} cannot be read (${messageOf(error)}).`);
  }
  const words = content.split(/[\s,]+/).filter((word) => word !== '');
  if (words.length === 0) throw new UserError(`${where} holds no ${setting.what}.`);
  return { words, where };
}
