import { z } from 'zod';
import { flag, setting, words } from './setting.ts';

/** The gateway's own server, and its permitted callers. */
export const serverSettings = {
  apiTokens: setting(
    'LEVELHOOK_API_TOKENS',
    words.pipe(z.array(z.string().min(16, 'must hold tokens of at least 16 characters each'))).prefault(''),
    'bearer tokens for `POST /reconcile`, see [server](../../src/gateway/http/server/README.md)',
    'none: requests are refused',
  ),
  adminTokens: setting(
    'LEVELHOOK_ADMIN_TOKENS',
    words.prefault(''),
    'static tokens for dashboard and queues: `NAME:read:TOKEN` or `NAME:change:TOKEN`, see below',
    "none: Kubernetes' own tokens",
  ),
  adminTokensFile: setting(
    'LEVELHOOK_ADMIN_TOKENS_FILE',
    z.string().optional(),
    'file that holds these tokens instead',
  ),
  metricsLogin: setting(
    'LEVELHOOK_METRICS_LOGIN',
    flag.prefault('false'),
    'ask for a login at `/metrics` too; on loopback only with the next setting',
  ),
  loginOnLoopback: setting(
    'LEVELHOOK_LOGIN_ON_LOOPBACK',
    flag.prefault('false'),
    'ask for a login on loopback too: for a gateway behind a proxy on its own machine',
  ),
  host: setting(
    'LEVELHOOK_HOST',
    z.string().prefault('127.0.0.1'),
    'where health, metrics, queues and the dashboard are; elsewhere than on loopback the last two need a login',
  ),
  port: setting(
    'LEVELHOOK_PORT',
    z.coerce.number('must be a port number').int().min(0).max(65_535).prefault('8787'),
    'the port there; `0`: any; `--port N` wins',
  ),
  allowedHosts: setting(
    'LEVELHOOK_ALLOWED_HOSTS',
    words.pipe(z.array(z.string().regex(/^[A-Za-z0-9.-]+$/, 'must hold host names, without ports'))).prefault(''),
    'host names for the gateway, separated by spaces or commas, beside IP addresses and its Service in the cluster',
  ),
  // Read again when they change.
  tlsCertFile: setting(
    'LEVELHOOK_TLS_CERT_FILE',
    z.string().optional(),
    'PEM file of a certificate chain: serve https',
    'none: plain http',
  ),
  tlsKeyFile: setting('LEVELHOOK_TLS_KEY_FILE', z.string().optional(), 'PEM file of its key'),
};
