import { silentLogger } from '../../src/core/index.ts';
import type { AdminLogin } from '../../src/gateway/server/admin-server.ts';

/** Of a server that is asked on loopback only. */
export const NO_LOGIN: AdminLogin = { backend: () => undefined, metrics: false, auditLog: silentLogger };
