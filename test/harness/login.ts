import { silentLogger, systemClock } from '../../src/core/index.ts';
import type { AdminLogin } from '../../src/gateway/http/server/admin-server.ts';
import type { QueueApiOptions } from '../../src/gateway/http/server/queue-api.ts';

/** Of a server that is asked on loopback only. */
export const NO_LOGIN: AdminLogin = { backend: () => undefined, metrics: false, auditLog: silentLogger };

/** Of a server that has no controller. */
export const NO_QUEUES: QueueApiOptions = { queues: () => new Map(), controller: () => undefined, clock: systemClock };
