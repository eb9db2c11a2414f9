/** The gateways on the overview of one of them, by the identity in the Lease, with their roles. */
export async function listedGateways(url: string): Promise<Record<string, string>> {
  const page = await (await fetch(`${url}/dashboard`)).text();
  const rows = page.matchAll(/<tr id="gateway-([^"]+)">(.*?)<\/tr>/gs);
  return Object.fromEntries([...rows].map(([, id, row = '']) => [id, /class="state \w+">(\w+)</.exec(row)?.[1] ?? '']));
}
