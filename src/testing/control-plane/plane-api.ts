import { Agent, request } from 'undici';
import { z } from 'zod';

const membersSchema = z.object({ members: z.array(z.object({ name: z.string().optional() })) });
const listSchema = z.object({ items: z.array(z.unknown()) });

/** The few requests that the start of a control plane sends to its apiserver, as its admin. */
export class PlaneApi {
  readonly #server: () => string;
  readonly #token: string;
  readonly #agent: Agent;

  /** `server` is called for each request, since the apiserver's port may still change while it starts. */
  constructor(server: () => string, ca: string, token: string) {
    this.#server = server;
    this.#token = token;
    this.#agent = new Agent({ connect: { ca }, allowH2: false });
  }

  /** Whether `url`, of any part, answers a GET with 200 within two seconds. */
  async answers(url: string): Promise<boolean> {
    try {
      const response = await request(url, { ...this.#options(), headersTimeout: 2_000 });
      await response.body.dump();
      return response.statusCode === 200;
    } catch {
      return false;
    }
  }

  /** Whether the etcd at `url` has a member of this name. It answers once it has a leader. */
  async hasEtcdMember(url: string, name: string): Promise<boolean> {
    try {
      const body = JSON.stringify({ linearizable: false });
      const options = { ...this.#options(), headersTimeout: 2_000, method: 'POST', body } as const;
      const response = await request(`${url}/v3/cluster/member/list`, options);
      const { data } = membersSchema.safeParse(await response.body.json());
      return data?.members.some((member) => member.name === name) ?? false;
    } catch {
      return false;
    }
  }

  /** The status of a GET; it may be 404. */
  async status(path: string): Promise<number> {
    const response = await request(this.#server() + path, this.#options());
    await response.body.dump();
    return response.statusCode;
  }

  /** An object that is there already stays as it is. Throws on any other answer than 201 and 409. */
  async create(path: string, object: unknown): Promise<void> {
    const body = JSON.stringify(object);
    const response = await request(this.#server() + path, { ...this.#options(), method: 'POST', body });
    const answer = await response.body.text();
    if (![201, 409].includes(response.statusCode))
      throw new Error(`POST ${path} was answered ${response.statusCode}: ${answer}`);
  }

  async list(path: string): Promise<unknown[]> {
    const response = await request(this.#server() + path, this.#options());
    return listSchema.parse(await response.body.json()).items;
  }

  /** Ends the connections. Later calls fail. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  #options() {
    return {
      dispatcher: this.#agent,
      headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
      headersTimeout: 30_000,
      bodyTimeout: 30_000,
    };
  }
}
