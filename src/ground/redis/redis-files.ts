import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { messageOf, UserError } from '../../core/index.ts';
import type { RedisAddress } from '../../contract/node/redis-url.ts';
import { type RedisFiles, variableOf } from '../config/config.ts';

/** The gateway's credentials. An absent user is Redis' `default`. */
export interface RedisCredentials {
  readonly username: string | undefined;
  readonly password: string | undefined;
}

interface TlsMaterial {
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

const SETTINGS = {
  caFile: 'redisCaFile',
  certFile: 'redisCertFile',
  keyFile: 'redisKeyFile',
  usernameFile: 'redisUsernameFile',
  passwordFile: 'redisPasswordFile',
  sentinelUsernameFile: 'redisSentinelUsernameFile',
  sentinelPasswordFile: 'redisSentinelPasswordFile',
} as const;

/**
 * The files that the settings of Redis name, read again at each use. While a file cannot be read or used, for example
 * during its replacement, its earlier content stays in use.
 */
export class RedisSecrets {
  readonly #address: RedisAddress;
  readonly #files: RedisFiles;
  readonly #texts = new Map<keyof RedisFiles, string>();
  #tls: TlsMaterial | undefined;

  /**
   * Reads all files once.
   * @throws UserError when a file cannot be read or used, or the file and the URL set the same value. Shows no secret.
   */
  constructor(address: RedisAddress, files: RedisFiles = {}) {
    this.#address = address;
    this.#files = files;
    for (const name of Object.keys(SETTINGS) as (keyof typeof SETTINGS)[]) this.#readFirst(name);
    this.#checkFit();
    if (address.hasTls) this.#tls = checked(this.#readTls());
  }

  /** For the Redis servers: from the files, or else from the URL. */
  get credentials(): RedisCredentials {
    return {
      username: this.#text('usernameFile') ?? this.#address.username,
      password: this.#text('passwordFile') ?? this.#address.password,
    };
  }

  /** For the Sentinels: from their files only. */
  get sentinelCredentials(): RedisCredentials {
    return { username: this.#text('sentinelUsernameFile'), password: this.#text('sentinelPasswordFile') };
  }

  /** The authorities and the client certificate of now. */
  get tls(): TlsMaterial {
    const found = this.#readTls();
    try {
      this.#tls = checked(found);
    } catch {
      // One of two files has been replaced, and the other not yet.
    }
    return this.#tls ?? found;
  }

  #readTls(): TlsMaterial {
    return { ca: this.#text('caFile'), cert: this.#text('certFile'), key: this.#text('keyFile') };
  }

  #text(name: keyof RedisFiles): string | undefined {
    const path = this.#files[name];
    if (path === undefined) return undefined;
    try {
      const text = contentOf(path);
      if (text !== '') this.#texts.set(name, text);
    } catch {
      // It is being replaced.
    }
    return this.#texts.get(name);
  }

  #readFirst(name: keyof typeof SETTINGS): void {
    const path = this.#files[name];
    if (path === undefined) return;
    const variable = variableOf(SETTINGS[name]);
    let text: string;
    try {
      text = contentOf(path);
    } catch (error) {
      throw new UserError(`${variable} cannot be read (${messageOf(error)}): check the path.`);
    }
    if (text === '') throw new UserError(`${variable} is wrong: ${path} is empty.`);
    this.#texts.set(name, text);
  }

  #checkFit(): void {
    const { kind, hasTls, username, password } = this.#address;
    const url = variableOf('redisUrl');
    const has = (name: keyof RedisFiles): boolean => this.#files[name] !== undefined;
    const refuse = (setting: keyof typeof SETTINGS, why: string): never => {
      throw new UserError(`${variableOf(SETTINGS[setting])} ${why}.`);
    };
    if (has('usernameFile') && username !== undefined) refuse('usernameFile', `is set, and ${url} has a user: set one`);
    if (has('passwordFile') && password !== undefined) {
      refuse('passwordFile', `is set, and ${url} has a password: set one of them`);
    }
    if (this.credentials.username !== undefined && this.credentials.password === undefined) {
      refuse('passwordFile', 'is not set: there is a user for Redis without a password');
    }
    if (has('sentinelUsernameFile') && !has('sentinelPasswordFile')) {
      refuse('sentinelPasswordFile', 'is not set: there is a user for the Sentinels without a password');
    }
    if (kind !== 'sentinel' && has('sentinelPasswordFile')) {
      refuse('sentinelPasswordFile', `is set, and ${url} names no Sentinels`);
    }
    for (const name of ['caFile', 'certFile', 'keyFile'] as const) {
      if (has(name) && !hasTls) refuse(name, `is set, and ${url} has no TLS: it must begin with rediss`);
    }
    if (has('certFile') !== has('keyFile')) {
      refuse(has('certFile') ? 'keyFile' : 'certFile', 'is not set: a certificate and its key belong together');
    }
  }
}

/** Without the line break at its end, which editors and kubectl write. */
function contentOf(path: string): string {
  return readFileSync(path, 'utf8').replace(/\r?\n$/, '');
}

/** @throws UserError when no connection can be made with it. */
function checked(material: TlsMaterial): TlsMaterial {
  const { ca, cert, key } = material;
  const names = [ca && 'redisCaFile', cert && 'redisCertFile', key && 'redisKeyFile'] as const;
  try {
    // Node accepts a file without certificates and then trusts no server, without a word.
    if (ca !== undefined && !ca.includes('-----BEGIN CERTIFICATE-----')) throw new Error('no certificate in PEM form');
    createSecureContext(withoutAbsent(material));
    return material;
  } catch (error) {
    const variables = names.flatMap((name) => (name ? [variableOf(name)] : [])).join(', ');
    throw new UserError(`${variables} cannot be used (${messageOf(error)}).`);
  }
}

function withoutAbsent({ ca, cert, key }: TlsMaterial): { ca?: string; cert?: string; key?: string } {
  return { ...(ca === undefined ? {} : { ca }), ...(cert === undefined || key === undefined ? {} : { cert, key }) };
}
