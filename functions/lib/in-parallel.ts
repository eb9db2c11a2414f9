/**
 * Calls `act` for each item, at most `limit` at a time, and waits for all calls, even after a failure, so that nothing
 * goes on after the run. The outcomes are in the order of the items.
 */
export async function inParallel<T, R>(
  items: readonly T[],
  limit: number,
  act: (item: T) => Promise<R>,
): Promise<PromiseSettledResult<R>[]> {
  const outcomes: PromiseSettledResult<R>[] = [];
  // Shared by the workers, so that each takes the next free item.
  const queue = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) [outcomes[index]] = await Promise.allSettled([act(item)]);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return outcomes;
}

/** The errors of the failed calls. */
export function failuresOf(outcomes: readonly PromiseSettledResult<unknown>[]): Error[] {
  const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
  return failed.map(({ reason }) => asError(reason));
}

export function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
