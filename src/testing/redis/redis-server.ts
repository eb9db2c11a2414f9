import type { Environment } from '../process/environment.ts';

export interface StartRedisOptions {
  /** Read for REDIS_URL and PATH. Default: `process.env`. */
  readonly env?: Environment;
  /** Starts a server even if REDIS_URL is set, for tests that stop and start it. Default: false. */
  readonly ignoreEnvironment?: boolean;
  /** Keeps an append-only file, synced every second: the data outlives the process. Default: false, memory alone. */
  readonly appendOnly?: boolean;
  /** Default: a free one. */
  readonly port?: number;
  /**
   * Where the append-only file and the log go; it must be empty or absent, and `stop()` leaves it in place.
   * Default: a fresh directory under the system's temporary one, which `stop()` removes.
   */
  readonly directory?: string;
  /** Called with one line of text at a time while a server is being installed. Default: none. */
  readonly onProgress?: (line: string) => void;
}

/** A Redis or Valkey server, on 127.0.0.1 alone if it is ours. */
export interface RedisServer {
  /** `redis://127.0.0.1:PORT`, or REDIS_URL as it was given. */
  readonly url: string;
  readonly port: number;
  /** The process id, or undefined when the server does not run or is not ours. */
  readonly pid: number | undefined;
  /** Whether `startRedis` started it; false for that of REDIS_URL, which `stop()` leaves alone. */
  readonly managed: boolean;
  /** Stops the server and removes its temporary directory. May be called twice. */
  stop(): Promise<void>;
  /** Sends a signal (default SIGKILL) and, for one that ends a process, resolves when it has ended. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /**
   * Starts a server that has ended on the same port and data, and resolves when it answers. Does nothing if it runs.
   */
  start(): Promise<void>;
}
