import { type Runtime, systemClock } from '../../../core/index.ts';
import type { CacheApi } from '../cache-api/cache-api.ts';
import type { ReadingTimes } from '../cache-api/reading-time.ts';
import type { KubernetesApi } from '../write-proxy/kubernetes-api.ts';
import type { LoginBackend } from '../login/login.ts';
import type { GatewayCertificates } from '../../certificates/gateway-certificates.ts';
import type { RunningController } from '../../controller/running/controller.ts';
import { notesOf } from '../../controller/running/controller-state.ts';
import type { HealthCheck } from '../../process/health.ts';
import type { LeaderElection } from '../../election/leader-election.ts';
import type { LeaderHandover } from '../../election/leader-handover.ts';
import type { LeaderRecord } from '../../election/leader-record.ts';
import type { Manager } from '../../process/manager.ts';
import type { PrometheusMetrics } from '../../process/metrics.ts';
import { type AdminLogin, AdminServer, type ListenOptions } from './admin-server.ts';
import { callbackApi } from './callback-api.ts';
import { dashboardData, type DashboardParts, keyObject } from './dashboard-data.ts';
import { dashboardApp } from '../dashboard/app.ts';
import { functionRights } from './function-rights.ts';
import type { AskedController } from './queue-api.ts';
import { Profiler } from '../../../profiler/profiler.ts';
import { profileApi } from './profile-api.ts';
import type { Recovery } from '../../recovery/recovery.ts';
import { reconcileApi, type ReconcileApiOptions } from './reconcile-api.ts';
import { queuesOf, renderMetrics, Scrapes } from './scrape.ts';

/** The parts of a gateway that requests and checks ask. */
export interface ServedParts {
  readonly manager: Manager;
  readonly cacheApi: CacheApi;
  readonly kubernetesApi: KubernetesApi;
  /** Undefined when the gateway makes none. */
  readonly certificates: Pick<GatewayCertificates, 'awaitsLeader' | 'notReady' | 'warning'> | undefined;
  /** Undefined when this gateway leads without one. */
  readonly election: Pick<LeaderElection, 'notReady' | 'warning' | 'identity' | 'leader' | 'isLeading'> | undefined;
  readonly replica: DashboardParts['replica'];
  readonly replays: DashboardParts['replays'];
  readonly client: DashboardParts['client'];
  readonly login: LoginBackend;
  readonly leaderRecord: Pick<LeaderRecord, 'reason'> | undefined;
  readonly handover: Pick<LeaderHandover, 'reason'> | undefined;
}

export interface GatewayServerOptions {
  readonly listen: ListenOptions;
  readonly apiTokens: ReconcileApiOptions['tokens'];
  readonly login: Omit<AdminLogin, 'backend'>;
  readonly metrics: PrometheusMetrics;
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'traces'>;
  readonly times: ReadingTimes;
  /** Undefined while the gateway is starting. */
  readonly parts: () => ServedParts | undefined;
  /** Why the start waits; undefined while it does not. */
  readonly startWaitsFor: () => string | undefined;
}

/** The server of a gateway. It is up before the parts that it asks. */
export function gatewayServer(options: GatewayServerOptions): AdminServer {
  const { listen, apiTokens, login, metrics, runtime, times, parts, startWaitsFor } = options;
  const { clock, logger } = runtime;
  const ready = gatewayChecks(parts, startWaitsFor);
  const unavailable = (): string | undefined => unavailableReason(parts(), startWaitsFor());
  const traceUrl = (id: string): string | undefined => runtime.traces?.urlOf(id);
  const data = dashboardData({ parts, checks: ready, unavailable, clock, times, traceUrl });
  const healthy = (): boolean => parts()?.manager.recovery.healthy ?? false;
  const scrapes = new Scrapes(() => renderMetrics(metrics, parts()?.manager, systemClock), systemClock);
  return new AdminServer({
    listen,
    live: new Map([['ping', () => undefined]]),
    ready,
    metrics: () => scrapes.text(),
    apis: {
      dashboard: dashboardApp(data, logger),
      queues: {
        queues: () => unavailable() ?? queuesOf(parts()?.manager.controllers),
        controller: (name) => {
          const manager = parts()?.manager;
          const controller = manager?.controllers.known().get(name);
          return (
            controller && {
              ...notesOf(controller, manager),
              namespaced: controller.objects.resource.namespaced,
              objectOf: (visitor, key) => keyObject(controller, visitor, key),
              requeue: (request) => controller.requeue(request),
              rights: rightsOf(controller, parts()),
            }
          );
        },
        clock,
        times,
      },
      inventory: data,
      cacheApi: () => parts()?.cacheApi,
      kubernetesApi: () => parts()?.kubernetesApi,
      reconcile: reconcileApi({
        tokens: apiTokens,
        controller: (name) => parts()?.manager.controllers.get(name),
        healthy,
        // Not the gateway's: that is set once the time of the gateways before is known, which this limit must not
        // notice.
        clock: systemClock,
        logger,
      }),
      profiles: profileApi({
        profiler: new Profiler(),
        functions: () => parts()?.manager.controllers.known(),
        clock,
      }),
      callbacks: callbackApi({
        healthy,
        mayCome: (name) => parts()?.manager.mayCome(name) ?? true,
        controller: (name) => parts()?.manager.controllers.callbackTaker(name),
        clock,
        logger,
      }),
    },
    login: { ...login, backend: () => parts()?.login },
    logger,
  });
}

function rightsOf(controller: RunningController, parts: ServedParts | undefined): AskedController['rights'] {
  const { proxied } = controller;
  return proxied && parts && ((namespace) => functionRights(proxied, parts.client.for(controller.name), namespace));
}

/** Why queues and views cannot be asked now, for people; undefined when they can. */
export function unavailableReason(
  parts: { readonly manager: { readonly recovery: Pick<Recovery, 'notReady'> } } | undefined,
  startWaitsFor: string | undefined,
): string | undefined {
  if (!parts) return `The gateway is starting${startWaitsFor === undefined ? '' : `: ${startWaitsFor}`}`;
  const reason = parts.manager.recovery.notReady();
  return reason === undefined ? undefined : `Redis cannot be asked: ${reason}`;
}

export function gatewayChecks(
  parts: () => ServedParts | undefined,
  startWaitsFor: () => string | undefined = () => undefined,
): Map<string, HealthCheck> {
  const check = (ask: (made: ServedParts) => ReturnType<HealthCheck>): HealthCheck => {
    return () => {
      const made = parts();
      return made ? ask(made) : (startWaitsFor() ?? 'still starting');
    };
  };
  return new Map<string, HealthCheck>([
    ['redis', check(({ manager }) => manager.recovery.notReady())],
    ['redis-server', check(({ manager }) => manager.redisHealth.notReady())],
    ['informers', check(({ manager }) => manager.viewsNotReady())],
    ['functions', check(({ manager }) => manager.configured.notReady())],
    ['progress', check(({ manager }) => manager.progress.notReady())],
    ['controllers', check(({ manager }) => manager.controllers.notReady() ?? manager.progress.notWell())],
    ['reconcilefunctions', check(({ manager }) => manager.declared?.notReady())],
    ['certificates', check(({ certificates }) => certificates && certificateCheck(certificates))],
    ['leader', check((made) => made.election?.notReady() ?? leaderWarning(made))],
  ]);
}

/** As `leaderWarning`. */
function certificateCheck(certificates: NonNullable<ServedParts['certificates']>): ReturnType<HealthCheck> {
  const reason = certificates.notReady();
  if (reason !== undefined) return certificates.awaitsLeader ? { warning: reason } : reason;
  const { warning } = certificates;
  return warning === undefined ? undefined : { warning };
}

/**
 * Faults of the leader's work make no follower unready: a follower that could lead is ready. Otherwise an update that
 * ends the old gateways when the new ones are ready would never end.
 */
function leaderWarning({
  election,
  leaderRecord,
  handover,
}: Pick<ServedParts, 'election' | 'leaderRecord' | 'handover'>): ReturnType<HealthCheck> {
  const warning = election?.warning ?? leaderRecord?.reason ?? handover?.reason;
  return warning === undefined ? undefined : { warning };
}
