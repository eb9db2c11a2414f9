// Made by infra/kinds/write-kinds.ts of the apiserver's own OpenAPI v3: do not edit.

/**
 * The types with quantities, and of each the fields that lead to some: '' is a quantity, '*' before a type a map of it.
 */
export const QUANTITIES = {
  CapacityRequirements: { requests: '*' },
  Container: { env: 'EnvVar', resources: 'ResourceRequirements' },
  ContainerStatus: { allocatedResources: '*', resources: 'ResourceRequirements' },
  Counter: { value: '' },
  DeviceCapacity: {
    requestPolicy: { default: '', validRange: { max: '', min: '', step: '' }, validValues: '' },
    value: '',
  },
  DownwardAPIVolumeFile: { resourceFieldRef: 'ResourceFieldSelector' },
  EnvVar: { valueFrom: { resourceFieldRef: 'ResourceFieldSelector' } },
  HPAScalingRules: { tolerance: '' },
  JobSpec: { template: 'PodTemplateSpec' },
  MetricTarget: { averageValue: '', value: '' },
  MetricValueStatus: { averageValue: '', value: '' },
  NodeAllocatableResourceMapping: { allocationMultiplier: '' },
  PersistentVolumeClaimSpec: { resources: { limits: '*', requests: '*' } },
  PersistentVolumeSpec: { capacity: '*' },
  PodSpec: {
    containers: 'Container',
    ephemeralContainers: { env: 'EnvVar', resources: 'ResourceRequirements' },
    initContainers: 'Container',
    overhead: '*',
    resources: 'ResourceRequirements',
    volumes: {
      downwardAPI: { items: 'DownwardAPIVolumeFile' },
      emptyDir: { sizeLimit: '' },
      ephemeral: { volumeClaimTemplate: { spec: 'PersistentVolumeClaimSpec' } },
      projected: { sources: { downwardAPI: { items: 'DownwardAPIVolumeFile' } } },
    },
  },
  PodTemplateSpec: { spec: 'PodSpec' },
  ResourceClaimSpec: {
    devices: {
      requests: { exactly: { capacity: 'CapacityRequirements' }, firstAvailable: { capacity: 'CapacityRequirements' } },
    },
  },
  ResourceFieldSelector: { divisor: '' },
  ResourceRequirements: { limits: '*', requests: '*' },
  'apps/v1/DaemonSet': { spec: { template: 'PodTemplateSpec' } },
  'apps/v1/Deployment': { spec: { template: 'PodTemplateSpec' } },
  'apps/v1/ReplicaSet': { spec: { template: 'PodTemplateSpec' } },
  'apps/v1/StatefulSet': { spec: { template: 'PodTemplateSpec', volumeClaimTemplates: 'v1/PersistentVolumeClaim' } },
  'autoscaling/v2/HorizontalPodAutoscaler': {
    spec: {
      behavior: { scaleDown: 'HPAScalingRules', scaleUp: 'HPAScalingRules' },
      metrics: {
        containerResource: { target: 'MetricTarget' },
        external: { target: 'MetricTarget' },
        object: { target: 'MetricTarget' },
        pods: { target: 'MetricTarget' },
        resource: { target: 'MetricTarget' },
      },
    },
    status: {
      currentMetrics: {
        containerResource: { current: 'MetricValueStatus' },
        external: { current: 'MetricValueStatus' },
        object: { current: 'MetricValueStatus' },
        pods: { current: 'MetricValueStatus' },
        resource: { current: 'MetricValueStatus' },
      },
    },
  },
  'batch/v1/CronJob': { spec: { jobTemplate: { spec: 'JobSpec' } } },
  'batch/v1/Job': { spec: 'JobSpec' },
  'node.k8s.io/v1/RuntimeClass': { overhead: { podFixed: '*' } },
  'resource.k8s.io/v1/ResourceClaim': {
    spec: 'ResourceClaimSpec',
    status: { allocation: { devices: { results: { consumedCapacity: '*' } } } },
  },
  'resource.k8s.io/v1/ResourceClaimTemplate': { spec: { spec: 'ResourceClaimSpec' } },
  'resource.k8s.io/v1/ResourceSlice': {
    spec: {
      devices: {
        capacity: '*DeviceCapacity',
        consumesCounters: { counters: '*Counter' },
        nodeAllocatableResourceMappings: '*NodeAllocatableResourceMapping',
      },
      sharedCounters: { counters: '*Counter' },
    },
  },
  'storage.k8s.io/v1/CSIStorageCapacity': { capacity: '', maximumVolumeSize: '' },
  'storage.k8s.io/v1/VolumeAttachment': { spec: { source: { inlineVolumeSpec: 'PersistentVolumeSpec' } } },
  'v1/LimitRange': {
    spec: { limits: { default: '*', defaultRequest: '*', max: '*', maxLimitRequestRatio: '*', min: '*' } },
  },
  'v1/Node': { status: { allocatable: '*', capacity: '*' } },
  'v1/PersistentVolume': { spec: 'PersistentVolumeSpec' },
  'v1/PersistentVolumeClaim': { spec: 'PersistentVolumeClaimSpec', status: { allocatedResources: '*', capacity: '*' } },
  'v1/Pod': {
    spec: 'PodSpec',
    status: {
      allocatedResources: '*',
      containerStatuses: 'ContainerStatus',
      ephemeralContainerStatuses: 'ContainerStatus',
      initContainerStatuses: 'ContainerStatus',
      nodeAllocatableResourceClaimStatuses: { resources: '*' },
      resources: 'ResourceRequirements',
    },
  },
  'v1/PodTemplate': { template: 'PodTemplateSpec' },
  'v1/ReplicationController': { spec: { template: 'PodTemplateSpec' } },
  'v1/ResourceQuota': { spec: { hard: '*' }, status: { hard: '*', used: '*' } },
} as const;
