/** An IP address in Go's notation, and its family. */
export interface IpAddress {
  readonly family: 'IPv4' | 'IPv6';
  readonly text: string;
}

/** As apimachinery's ParseIPSloppy: numbers of an IPv4 address may begin with zeros. Undefined for other text. */
export function parseIp(text: string): IpAddress | undefined {
  return text.includes(':') ? parseIpv6(text) : parseIpv4(text);
}

function parseIpv4(text: string): IpAddress | undefined {
  const numbers = text.split('.');
  if (numbers.length !== 4 || !numbers.every((each) => /^\d+$/.test(each) && Number(each) < 256)) return undefined;
  return { family: 'IPv4', text: numbers.map(Number).join('.') };
}

/** Go treats an IPv4 address in IPv6 notation as IPv4. */
const MAPPED = /^\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]$/;

function parseIpv6(text: string): IpAddress | undefined {
  if (!/^[0-9a-fA-F:.]+$/.test(text)) return undefined;
  const url = `http://[${text}]`;
  if (!URL.canParse(url)) return undefined;
  const { hostname } = new URL(url);
  const mapped = MAPPED.exec(hostname);
  if (!mapped) return { family: 'IPv6', text: hostname.slice(1, -1) };
  const bytes = [mapped[1], mapped[2]].flatMap((part = '') => {
    const value = Number.parseInt(part, 16);
    return [value >> 8, value & 255];
  });
  return { family: 'IPv4', text: bytes.join('.') };
}
