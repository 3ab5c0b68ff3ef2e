/* Which memory objects live where, and when; time is the order of events. */
#ifndef PASTA_MEMORY_OBJECTS_H
#define PASTA_MEMORY_OBJECTS_H

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace pasta {

constexpr uint64_t FOR_EVER = std::numeric_limits<uint64_t>::max();

struct Life {
    uint64_t begin, end; /* addresses */
    uint64_t id;
    uint64_t born, died; /* lives for events born <= event < died */
    uint32_t space;      /* id of its text */
    int32_t device;
};

/* Objects that do not overlap at any one moment, as those of one allocator. */
class Lives {
  public:
    void allocate(uint64_t address, uint64_t bytes, uint64_t id, uint64_t now, uint32_t space, int32_t device) {
        std::vector<Life> &here = lives[address];
        if (!here.empty() && here.back().died == FOR_EVER) end(here.back(), now); /* its release was not seen */
        here.push_back({address, address + bytes, id, now, FOR_EVER, space, device});
        longest = std::max(longest, bytes);
    }

    void release(uint64_t address, uint64_t now) {
        auto found = lives.find(address);
        if (found != lives.end() && found->second.back().died == FOR_EVER) end(found->second.back(), now);
    }

    /* Call `visit` with each object that lives at `moment` and overlaps the range, in order of addresses. */
    template <class Visit> void each(uint64_t begin, uint64_t end, uint64_t moment, Visit visit) const {
        auto at = lives.upper_bound(begin);
        while (at != lives.begin()) { /* the last object that begins before the range may reach into it */
            --at;
            const Life *life = alive(at->second, moment);
            if (life && life->end > begin) break;
            if (life || at->first + longest <= begin) {
                ++at;
                break;
            }
        }
        for (; at != lives.end() && at->first < end; ++at)
            if (const Life *life = alive(at->second, moment); life && life->end > begin) visit(*life);
    }

    /* Forget what died before `moment`. */
    void forget(uint64_t moment) {
        if (dead < 4096) return;
        dead = 0;
        for (auto at = lives.begin(); at != lives.end();) {
            std::erase_if(at->second, [&](const Life &life) { return life.died <= moment; });
            for (const Life &life : at->second) dead += life.died != FOR_EVER;
            at = at->second.empty() ? lives.erase(at) : std::next(at);
        }
    }

    bool empty() const { return lives.empty(); }

  private:
    std::map<uint64_t, std::vector<Life>> lives; /* by first address; in order of birth */
    uint64_t longest = 0, dead = 0;

    void end(Life &life, uint64_t now) {
        life.died = now;
        ++dead;
    }

    static const Life *alive(const std::vector<Life> &here, uint64_t moment) {
        for (auto life = here.rbegin(); life != here.rend(); ++life)
            if (life->born <= moment) return moment < life->died ? &*life : nullptr;
        return nullptr;
    }
};

} // namespace pasta

#endif
