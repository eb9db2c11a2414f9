/** A way from a queue in Redis to a function's answer. */
export interface Line {
  readonly name: string;
  /** Queues these keys. */
  add(keys: readonly string[]): Promise<void>;
  /** Begins to run keys. Called once. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Triggers sent so far, where that is not one for each key. */
  readonly triggers?: () => number;
}

export interface LineOptions {
  readonly redisUrl: string;
  readonly functionUrl: string;
  readonly secret: string;
  readonly concurrency: number;
  /** Keys in one trigger, at most. Default 1; the bare loop knows no other. */
  readonly maxBatch?: number;
  /** Where traces go, and of which part of the triggers. Default: there are none. The bare loop knows none. */
  readonly traces?: { readonly collector: string; readonly ratio: number };
  /** Told of each key when its function has answered, and the run is over for the queue. */
  readonly onDone: (key: string) => void;
}
