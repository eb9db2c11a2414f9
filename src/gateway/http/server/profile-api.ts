import { type Context, Hono } from 'hono';
import { z } from 'zod';
import { boundedText, type Clock, messageOf } from '../../../core/index.ts';
import {
  DEFAULT_PROFILE_SECONDS,
  MAX_PROFILE_SECONDS,
  PROFILE_PATH,
  type ProfileKind,
  type ProfileSpec,
} from '../../../contract/node/profile-request.ts';
import { type Profiler, ProfilerBusyError, ProfilerUnavailableError } from '../../../profiler/profiler.ts';
import { functionProfile, type ProfiledFunction, ProfileError } from '../../controller/endpoint/function-profile.ts';
import { isLinkFromElsewhere } from '../login/request.ts';
import { audit, type LoginEnv } from '../login/visitor.ts';
import { pprofInProcess } from '../profiles/pprof-process.ts';

export interface ProfileApiOptions {
  /** Of the gateway's own process. */
  readonly profiler: Profiler;
  /** By id. Undefined while the gateway is starting. */
  readonly functions: () => ReadonlyMap<string, ProfiledFunction> | undefined;
  readonly clock: Pick<Clock, 'wallNow'>;
}

/** As Go's net/http/pprof names them. */
const KINDS: ReadonlyMap<string, ProfileKind> = new Map([
  ['profile', 'cpu'],
  ['heap', 'heap'],
  ['allocs', 'allocs'],
]);

const SECONDS = `must be a whole number from 1 to ${MAX_PROFILE_SECONDS}`;

/** Strict: with a misspelt `seconds` the profile would be another one. */
const query = z.strictObject({
  seconds: z
    .string()
    .regex(/^[0-9]{1,2}$/, SECONDS)
    .transform(Number)
    .refine((seconds) => seconds >= 1 && seconds <= MAX_PROFILE_SECONDS, SECONDS)
    .default(DEFAULT_PROFILE_SECONDS),
  format: z.enum(['pprof', 'chrome']).default('pprof'),
});

/** Of functions, at a time: each has up to 16 MiB here. */
const MAX_PROFILES = 4;
const SELF = 'gateway';

const INDEX = `GET ${PROFILE_PATH}/KIND?seconds=10&format=pprof: a profile of this gateway
GET ${PROFILE_PATH}/controllers/ID/KIND?seconds=10&format=pprof: a profile of the function of a controller

KIND:
  profile  processor time
  heap     memory that was allocated in these seconds and is in use at their end
  allocs   all memory that was allocated in these seconds
seconds: 1 to ${MAX_PROFILE_SECONDS}
format: pprof (go tool pprof FILE) or chrome (.cpuprofile or .heapprofile: DevTools, Performance or Memory, Load)
`;

/**
 * Mounted at `PROFILE_PATH`, behind the login: profiles of the gateway and of functions. It takes one profile of each
 * process at a time, and ends one as soon as the client hangs up. The README of this folder has the answers.
 */
export function profileApi({ profiler, functions, clock }: ProfileApiOptions): Hono<LoginEnv> {
  /** Controllers whose functions are asked. */
  const asked = new Set<string>();
  const app = new Hono<LoginEnv>();

  app.use(async (context, next) => {
    if (context.req.method !== 'GET') {
      context.header('allow', 'GET');
      return refuse(context, 405, 'GET only');
    }
    // A page elsewhere could not read the answer, but it could slow down the process.
    if (isLinkFromElsewhere(context)) return refuse(context, 403, 'a page elsewhere has asked for this profile');
    return next();
  });
  app.get('/', (context) => context.text(INDEX));
  app.get('/:kind', (context) => answer(context, SELF, clock, ({ spec, signal }) => profiler.take(spec, signal)));
  app.get('/controllers/:id/:kind', async (context) => {
    const id = context.req.param('id');
    const known = functions();
    if (!known) return refuse(context, 503, 'the gateway is starting');
    const asks = known.get(id);
    if (!asks) return refuse(context, 404, `there is no controller "${id}" in this gateway`);
    // Until it is converted, too.
    let holds = false;
    try {
      return await answer(context, id, clock, async ({ spec, signal }) => {
        if (asked.has(id)) throw new ProfileError(429, `a profile of ${id} is being taken already: try again later`);
        if (asked.size >= MAX_PROFILES) {
          throw new ProfileError(429, `profiles of ${MAX_PROFILES} functions are being taken already: try again later`);
        }
        asked.add(id);
        holds = true;
        return functionProfile(asks, { profile: spec, clock }, signal);
      });
    } finally {
      if (holds) asked.delete(id);
    }
  });
  return app;
}

type Take = (how: { readonly spec: ProfileSpec; readonly signal: AbortSignal }) => Promise<string>;

async function answer(context: Context, of: string, clock: Pick<Clock, 'wallNow'>, take: Take): Promise<Response> {
  const path = context.req.param('kind') ?? '';
  const kind = KINDS.get(path);
  if (!kind) return refuse(context, 404, `there is no profile "${path}": ask for ${[...KINDS.keys()].join(', ')}`);
  const parsed = query.safeParse(context.req.query());
  if (!parsed.success) return refuse(context, 400, sentenceOf(parsed.error));
  const { seconds, format } = parsed.data;
  audit(context, { action: 'profile', of, kind, seconds });
  const { signal } = context.req.raw;
  try {
    const json = await take({ spec: { kind, seconds }, signal });
    if (format === 'chrome') return file(context, Buffer.from(json), { of, path, type: 'application/json' });
    const endWallMs = clock.wallNow();
    const bytes = await pprofInProcess({ kind, json, endWallMs, seconds }, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      throw new ProfileError(502, `the profile of ${of} cannot be converted (${messageOf(error)})`);
    });
    return file(context, bytes, { of, path, type: 'application/octet-stream' });
  } catch (error) {
    // No answer reaches the client.
    if (signal.aborted) return refuse(context, 408, 'the client has hung up');
    if (error instanceof ProfilerBusyError) return refuse(context, 429, error.message);
    if (error instanceof ProfilerUnavailableError) return refuse(context, 501, error.message);
    if (error instanceof ProfileError) return refuse(context, error.status, error.message);
    throw error;
  }
}

/** Programs see the formats by these ends of names. */
function file(
  context: Context,
  bytes: Uint8Array<ArrayBuffer>,
  { of, path, type }: { readonly of: string; readonly path: string; readonly type: string },
): Response {
  const chrome = path === 'profile' ? 'cpuprofile' : 'heapprofile';
  const end = type === 'application/json' ? chrome : 'pb.gz';
  context.header('content-disposition', `attachment; filename="${of}-${path}.${end}"`);
  return context.body(bytes, 200, { 'content-type': type, 'content-length': String(bytes.length) });
}

function sentenceOf({ issues: [issue] }: z.ZodError): string {
  const where = issue?.path.join('.');
  return `${where ? `${where}: ` : ''}${issue?.message ?? 'not understood'}`;
}

type Status = 400 | 403 | 404 | 405 | 408 | 429 | 501 | 502 | 503 | 504;

function refuse(context: Context, status: Status, error: string): Response {
  if (status === 429 || status === 503) context.header('retry-after', '1');
  // The message may quote the request.
  return context.json({ error: boundedText(error, 1024) }, status);
}
