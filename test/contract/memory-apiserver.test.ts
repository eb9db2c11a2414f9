import { resource } from '../../src/core/index.ts';
import { MemoryApiserver } from '../../src/testing/index.ts';
import type { Site } from './apiserver/fixture.ts';
import { apiserverContract } from './apiserver-contract.ts';

const apiserver = new MemoryApiserver();
const Site = resource<Site>('memory.example.com/v1', 'Site');

apiserverContract('MemoryApiserver', () => ({ apiserver, namespace: 'contract', Site }));
