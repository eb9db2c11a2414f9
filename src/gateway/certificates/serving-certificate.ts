/** The certificate that the server of webhooks shows, which changes while the gateway runs. */
export interface ServingCertificate {
  current(): { cert: string; key: string };
  onRenewed(listener: () => void): () => void;
}
