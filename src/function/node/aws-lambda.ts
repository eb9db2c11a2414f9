/** A controller as an AWS Lambda function. A separate entry, as for each platform. */
import { readFile } from 'node:fs/promises';
import { handle, type LambdaContext, type LambdaEvent } from 'hono/aws-lambda';
import type { Controller } from '../controller.ts';
import { type Variables, environmentApp } from '../environment.ts';
import { LambdaConnections } from './lambda-connections.ts';

/** The handler of a function URL, of an API Gateway HTTP API (payload 2.0), or of a load balancer. */
export type LambdaHandler = (event: LambdaEvent, context?: LambdaContext) => Promise<object>;

/**
 * Makes a Lambda handler of a controller, configured from its environment (`environmentApp`):
 *
 * ```ts
 * export const handler = createLambdaHandler(greeting);
 * ```
 *
 * The results of a trigger are sent together, because Lambda buffers an answer until it is whole.
 *
 * @param environment read once. Default: the process's.
 * @throws UserError when a variable is missing or wrong; then the function does not start.
 */
export function createLambdaHandler(
  controller: Controller,
  // oxlint-disable-next-line no-restricted-properties -- it is the main program, whose settings these are
  environment: Variables = process.env,
): LambdaHandler {
  const connections = new LambdaConnections();
  const app = environmentApp(controller, environment, {
    readFile: (path) => readFile(path, 'utf8'),
    fetchTrusting: (ca) => connections.fetchTrusting(ca),
    fetch: connections.fetchTrusting(),
  });
  const answer = handle(app);
  return async (event, context) => {
    connections.begin();
    // The handler streams only on request.
    const whole = { ...event, headers: { ...event.headers, accept: 'application/json' } } as LambdaEvent;
    try {
      return await answer(whole, context);
    } finally {
      connections.end();
    }
  };
}
