import { inject } from 'vitest';
import { RedisQueueFixture } from '../harness/redis-queue.ts';
import { workQueueContract } from './work-queue/contract.ts';

workQueueContract('BullMqWorkQueue', (clock) => RedisQueueFixture.create(inject('redisUrl'), clock));
