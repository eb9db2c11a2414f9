import type { Environment } from '../process/environment.ts';

export interface StartRedisOptions {
  /** Source of REDIS_URL and PATH. Default: `process.env`. */
  readonly env?: Environment;
  /** Starts a server even if REDIS_URL is set, for tests that stop and start it. Default: false. */
  readonly ignoreEnvironment?: boolean;
  /**
   * Keeps an append-only file, synced every second, so that the data outlives the process. Default: false, memory
   * alone.
   */
  readonly appendOnly?: boolean;
  /** Default: a free port. */
  readonly port?: number;
  /**
   * The directory for the append-only file and the log. It is absent, empty, or that of an earlier server, whose data
   * this one then has. `stop()` leaves it in place. Default: a new temporary directory, which `stop()` removes.
   */
  readonly directory?: string;
  /** Called with one line of text at a time while a server is being installed. Default: none. */
  readonly onProgress?: (line: string) => void;
}

/** A Redis or Valkey server. If we started it, it listens on 127.0.0.1 alone. */
export interface RedisServer {
  /** `redis://127.0.0.1:PORT`, or REDIS_URL as it was given. */
  readonly url: string;
  readonly port: number;
  /** The process id, or undefined when the server does not run or was not started by us. */
  readonly pid: number | undefined;
  /** Whether `startRedis` started it. False for the server of REDIS_URL, which `stop()` leaves alone. */
  readonly managed: boolean;
  /** Stops the server and removes its temporary directory. May be called twice. */
  stop(): Promise<void>;
  /** Sends a signal (default SIGKILL). If the signal ends a process, resolves when the server has ended. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /**
   * Restarts a server that has ended, on the same port and data, and resolves when it answers. Does nothing if it runs.
   */
  start(): Promise<void>;
}
