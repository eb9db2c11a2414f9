/**
 * Whether a host in a URL or a setting is this machine, so that the traffic does not pass the network. It knows the
 * usual spellings only; the gateway checks the addresses of a resolved name in `endpoint-rules`.
 */
export function isLoopback(host: string): boolean {
  return ['localhost', '::1', '[::1]'].includes(host) || /^127(\.[0-9]+){3}$/.test(host);
}

/** Whether a token or an object may be sent to this URL: over https, or within the machine. */
export function isSecureUrl(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));
}
