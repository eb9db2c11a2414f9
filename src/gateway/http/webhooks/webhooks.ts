import { systemClock, UserError } from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import { GatewayCertificates } from '../../certificates/gateway-certificates.ts';
import { type ClientAuthorities, FileAuthorities } from '../../certificates/client-authorities.ts';
import { FileCertificate, type ServingCertificate } from '../../certificates/serving-certificate.ts';
import { type GatewayConfig, variableOf } from '../../../ground/config/config.ts';
import { webhookCertificates } from '../../../ground/config/webhook-certificates.ts';
import { ReviewApi, type ReviewApiOptions } from './review-api.ts';
import { WebhookServer } from './webhook-server.ts';

export interface WebhooksOptions extends Omit<ReviewApiOptions, 'ending' | 'knowsApiservers'> {
  readonly config: GatewayConfig;
  /** Whether this gateway leads: only then it makes certificates. */
  readonly leads: () => boolean;
  /** Called when the server cannot be started with a certificate that came later. */
  readonly fatal: (error: unknown) => void;
  /** Aborted when the gateway begins to stop. */
  readonly ending: AbortSignal;
}

/**
 * The webhooks of a gateway: the API of reviews, its server, and the certificate of the server. Without a setting that
 * says where to listen there are none.
 *
 * A certificate in files is served from `start`. A certificate that the gateway makes itself needs the cluster, so the
 * server comes up later: in a follower, when a leader has made the certificate.
 *
 * The stop order is: `certify` ends by the signal, which comes first; `stop` comes after the controllers, because until
 * then the server answers that this gateway is stopping.
 */
export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #api: ReviewApi;
  /** Undefined when no setting names them. */
  readonly #authorities: ClientAuthorities | undefined;
  /** Undefined until there is a certificate. */
  #server: WebhookServer | undefined;

  constructor(options: WebhooksOptions) {
    const { conditions, config, controllers, ending, runtime, starting } = options;
    const { webhookClientCaFile } = config;
    this.#options = options;
    this.#authorities =
      webhookClientCaFile === undefined ? undefined : new FileAuthorities(webhookClientCaFile, runtime.logger);
    const knowsApiservers = this.#authorities !== undefined;
    const isEnding = (): boolean => ending.aborted;
    this.#api = new ReviewApi({ conditions, controllers, ending: isEnding, knowsApiservers, runtime, starting });
  }

  /** `https://host:port`, once it is served; undefined when there is no such server. */
  get url(): string | undefined {
    return this.#server?.url;
  }

  /**
   * Serves reviews if the certificate is in files.
   * @throws UserError when the settings name no certificate, a file cannot be used, or the server cannot be started.
   */
  async start(): Promise<void> {
    const { config, runtime } = this.#options;
    const { webhookListen, webhookService, webhookTls, webhookUrl } = config;
    if (!webhookListen) return;
    // A wrong file is reported now, and not when there is a certificate.
    void this.#authorities?.current();
    if (webhookTls) return this.#serve(new FileCertificate(webhookTls, runtime.metrics));
    if (webhookService || webhookUrl !== undefined) return;
    const names = ['webhookTlsCertFile', 'webhookTlsKeyFile', 'webhookService', 'webhookUrl'] as const;
    const [cert, key, service, url] = names.map(variableOf);
    const remedy = `set ${cert} and ${key}, or ${service} or ${url} to let the gateway make a certificate`;
    throw new UserError(`${variableOf('webhookListen')} needs a certificate: ${remedy}.`);
  }

  /**
   * The maker of the certificate, for `certify`; undefined when it comes from files, or there are no webhooks.
   * @throws UserError when no setting says where the certificate is kept.
   */
  createCertificates(client: ApiClient, podNamespace: string | undefined): GatewayCertificates | undefined {
    const { config, leads, runtime } = this.#options;
    if (!config.webhookListen || config.webhookTls) return undefined;
    const settings = webhookCertificates(config, podNamespace, variableOf);
    // Not the gateway's clock, which may be set.
    const clock = systemClock;
    return settings && new GatewayCertificates({ ...settings, runtime: { ...runtime, clock }, client, leads });
  }

  /** Serves reviews as soon as there is a certificate. Resolves when the gateway ends. Never rejects. */
  certify(certificates: GatewayCertificates): Promise<void> {
    const { ending, fatal } = this.#options;
    const running = certificates.run(ending);
    const serve = async (): Promise<void> => {
      await certificates.ready;
      if (!ending.aborted) await this.#serve(certificates);
    };
    serve().catch(fatal);
    return running;
  }

  /** Removes the metrics of the webhooks that a controller no longer has. @param names of its webhooks. */
  async keepOnly(id: string, names: readonly string[]): Promise<void> {
    await this.#api.keepOnly(id, names);
  }

  /** Reviews that are being answered get their answers. */
  async stop(): Promise<void> {
    await this.#server?.stop();
  }

  async #serve(certificate: ServingCertificate): Promise<void> {
    const { config, ending, runtime } = this.#options;
    const { webhookListen: listen } = config;
    if (!listen) return;
    const server = new WebhookServer({
      listen,
      certificate,
      authorities: this.#authorities,
      api: this.#api,
      // Not the gateway's clock, which may be set.
      clock: systemClock,
    });
    await server.start();
    this.#server = server;
    if (ending.aborted) return server.stop();
    runtime.logger.info({ url: server.url }, 'listening for reviews');
  }
}
