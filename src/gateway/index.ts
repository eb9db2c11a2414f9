export { type GatewayConfig, readConfig } from './config/config.ts';
export { Gateway } from './gateway.ts';
