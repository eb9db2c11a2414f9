/** Environment variables, passed in so that a test need not change the variables of its own process. */
export type Environment = Readonly<Record<string, string | undefined>>;
