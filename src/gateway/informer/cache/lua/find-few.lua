-- Finds objects by a declared index of a view, in one trip, if they are few.
--
-- KEYS[1] view HASH
-- KEYS[2] objects HASH
-- KEYS[3] prefix of an index entry's SET, which has the keys that carry the entry (same hash tag)
-- ARGV[1] the declared index
-- ARGV[2] the same as it is made of the namespace that the index entries name, if they name one
-- ARGV[3] how many objects are few
-- ARGV[4] how many bytes they have at most together
-- ARGV[5] how many of the index entries that follow each object carries; besides, it carries one of the others, if any
--
-- Answer: {keys, objects}; nil if the index is not complete, there are more objects or bytes than that, or the sets of keys are too
-- large to tell cheaply how many there are.

local complete, is_complete = redis.call('HGET', KEYS[1], 'indexes'), false
for _, index in ipairs(complete and cjson.decode(complete) or {}) do
  if index == ARGV[1] or index == ARGV[2] then is_complete = true end
end
if not is_complete then return false end

local most, first_other = tonumber(ARGV[3]), 6 + tonumber(ARGV[5])
-- Sets of this size are compared in microseconds. A tenant could make larger ones.
local LARGE = 200

local function members(sets)
  local smallest = math.huge
  for _, set in ipairs(sets) do smallest = math.min(smallest, redis.call('SCARD', set)) end
  if smallest > LARGE then return nil end
  return redis.call('SINTER', unpack(sets))
end

local keys, seen, bytes = {}, {}, 0
for at = first_other, math.max(first_other, #ARGV) do
  local sets = {}
  for place = 6, first_other - 1 do sets[#sets + 1] = KEYS[3] .. ARGV[place] end
  if ARGV[at] then sets[#sets + 1] = KEYS[3] .. ARGV[at] end
  local found = members(sets)
  if not found then return false end
  for _, key in ipairs(found) do
    if not seen[key] then
      seen[key] = true
      keys[#keys + 1] = key
      if #keys > most then return false end
      bytes = bytes + redis.call('HSTRLEN', KEYS[2], key)
      if #keys > 1 and bytes > tonumber(ARGV[4]) then return false end
    end
  end
end
return { keys, #keys > 0 and redis.call('HMGET', KEYS[2], unpack(keys)) or {} }
