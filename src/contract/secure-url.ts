/** Whether a host name of a URL is this machine, so that the traffic does not pass the network. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.[0-9]+){3}$/.test(hostname);
}

/** Whether a token or an object may be sent to this URL: by https, or within the machine. */
export function isSecureUrl(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));
}
