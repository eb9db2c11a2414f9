export { keepMemorySmall } from './process-memory.ts';
