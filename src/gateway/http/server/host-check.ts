import { isIP } from 'node:net';
import { isLoopback } from '../../../contract/secure-url.ts';
import { nameOf } from '../login/request.ts';

/**
 * Whether the gateway answers a request with this Host header. A web page can let its own name resolve to an address of
 * the gateway (DNS rebinding), and a browser inside the network would then read paths without a token for that page.
 * The Host header shows this: the name of such a page is neither an IP address nor a name that only this machine or
 * this cluster resolves.
 * @param listening the address that the server listens on. On loopback only names of loopback and `allowed` count.
 * @param allowed other names of this gateway, without ports.
 */
export function hostCheck(listening: string, allowed: readonly string[]): (header: string) => boolean {
  const own = new Set([listening, ...allowed].map(nameOf));
  const isLocal = isLoopback(listening);
  return (header) => {
    const name = nameOf(header);
    if (own.has(name) || isLoopback(name)) return true;
    return !isLocal && (isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0 || isClusterName(name));
  };
}

/** `gateway`, `gateway.tenant.svc`, `gateway.tenant.svc.cluster.local`: no public name has one label, or ends so. */
function isClusterName(name: string): boolean {
  return /^[a-z0-9-]+$/.test(name) || /\.svc(\.cluster\.local)?$/.test(name);
}
