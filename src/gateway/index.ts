export { type GatewayConfig, readConfig } from '../ground/config/config.ts';
export { Gateway } from './gateway.ts';
