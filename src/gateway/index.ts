export { type GatewayConfig, readConfig } from './config.ts';
export { Gateway } from './gateway.ts';
